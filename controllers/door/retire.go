package door

import (
	"context"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Retirer decides whether classes may be deleted, and pools that classes have made. It is safe for concurrent use.
type Retirer interface {
	// RetireClass says for people what uses the pools that a class has made; empty: the class may be deleted. It fails
	// if nobody can tell.
	RetireClass(ctx context.Context, class string) (used string, err error)
	// RetirePool closes a pool that a class has made, if nobody uses it. Otherwise used says, for people, that the pool is
	// in use, and the pool stays as it is. A dry run changes nothing. It fails if nobody can tell.
	RetirePool(ctx context.Context, in ledger.ClusterName, pool *ipamv1alpha1.IPPool, dry bool) (used string, err error)
}

// retireClass decides about the DELETE of a class that makes pools. If the API server cannot call the door, the class
// is deleted; its pools stay for the claims inside.
func (s *server) retireClass(
	ctx context.Context, req *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	class := &metav1.PartialObjectMetadata{}
	if err := take(req, class); err != nil {
		return nil, fmt.Errorf("read the class: %w", err)
	}
	name := class.Name
	return s.unlessUsed(ctx, "ipclasses", name, s.in(class), func(ctx context.Context) (string, error) {
		return s.decider().RetireClass(ctx, name)
	})
}

// retirePool decides about the DELETE of a pool that a class has made. If the API server cannot call the door, the
// policy ipam-derived-pools decides by the status alone, and the controller makes a deleted IPPool again.
func (s *server) retirePool(
	ctx context.Context, req *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	pool := &ipamv1alpha1.IPPool{}
	if err := take(req, pool); err != nil {
		return nil, fmt.Errorf("read the pool: %w", err)
	}
	in := s.in(pool)
	tenant := pool.Labels[ipamv1alpha1.LabelProvisionedFor]
	lighten(pool)
	pool.Labels = map[string]string{ipamv1alpha1.LabelProvisionedFor: tenant}
	return s.unlessUsed(ctx, "ippools", pool.Name, in, func(ctx context.Context) (string, error) {
		return s.decider().RetirePool(ctx, in, pool, dry(req))
	})
}

// unlessUsed allows a DELETE in a logical cluster unless decide says what uses the object.
func (s *server) unlessUsed(
	ctx context.Context, resource, name string, in ledger.ClusterName,
	decide func(context.Context) (used string, err error),
) (*admissionv1.AdmissionResponse, error) {
	if in == "" {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}
	used := ""
	err := SleepInTurn(ctx, in, func(ctx context.Context) (err error) {
		used, err = decide(ctx)
		return err
	})
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "a DELETE is not decided", "cluster", in, resource, name)
		return fails(resource, name, http.StatusServiceUnavailable,
			"nobody can tell now whether this is in use: delete it again later"), nil
	case used != "":
		return fails(resource, name, http.StatusConflict, used), nil
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}
