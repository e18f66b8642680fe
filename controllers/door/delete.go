package door

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// pauses are the times between two looks at the releases that a DELETE waits for. Most releases end within the first
// pause. The pauses grow, because each look may ask servers and ledger several times, and users may send many such
// DELETEs.
var pauses = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 6, Cap: time.Second}

// Await calls the function look again and again for a DELETE that waits. It ends when look reports that the wait has
// ended, when look fails, or when ctx ends, and returns the error.
func Await(ctx context.Context, look func(context.Context) (ended bool, err error)) error {
	return pauses.DelayFunc().Until(ctx, true, false, look)
}

// Drainer waits for pools that are about to be empty. It is safe for concurrent use.
type Drainer interface {
	// Drained waits until the status of a pool shows no block any more, or until ctx ends. It returns at once if the
	// holder of a block is not about to go.
	Drained(ctx context.Context, pool Pool)
}

// Pool is a pool that is being deleted.
type Pool struct {
	Cluster ledger.ClusterName
	Name    string
	UID     types.UID
}

// take decodes the object that a DELETE is about, and drops its text from the request, because the request may wait for
// long.
func take(req *admissionv1.AdmissionRequest, object any) error {
	raw := req.OldObject.Raw
	req.OldObject.Raw, req.Object.Raw = nil, nil
	return json.Unmarshal(raw, object)
}

// lighten drops the parts of the metadata that users may make large, except these annotations. No DELETE is decided by
// these parts.
func lighten(object metav1.Object, annotations ...string) {
	kept := map[string]string{}
	for _, key := range annotations {
		if value, ok := object.GetAnnotations()[key]; ok {
			kept[key] = value
		}
	}
	object.SetAnnotations(kept)
	object.SetLabels(nil)
	object.SetManagedFields(nil)
	object.SetOwnerReferences(nil)
	object.SetFinalizers(nil)
}

// drain allows the DELETE of a pool, but first waits for the releases that are under way. The policy ipam-pools decides
// after that, by the pool as the API server read it before this call. If the policy refuses, the API server reads the
// pool once more, and begins again if the pool has changed.
func (s *server) drain(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	stored := &metav1.PartialObjectMetadata{}
	if err := take(req, stored); err != nil {
		return nil, fmt.Errorf("read the pool: %w", err)
	}
	pool := Pool{Cluster: s.in(stored), Name: stored.Name, UID: stored.UID}
	if pool.Cluster != "" {
		// If too many requests sleep, the policy decides at once.
		_ = Sleep(ctx, pool.Cluster, func(ctx context.Context) error {
			s.decider().Drained(ctx, pool)
			return nil
		})
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}

// Releaser settles the releases of claims that are gone. It is safe for concurrent use.
type Releaser interface {
	// Released settles the release of the claim that a record names, if no server has the claim. It frees the block of the
	// claim, even one that is to be retained. It reports whether the record is gone afterwards: the record stays while its
	// claim exists, or may exist.
	Released(ctx context.Context, in ledger.ClusterName, record *ipamv1alpha1.IPAllocation) (bool, error)
}

// release decides about the DELETE of an IPAllocation that names a claim. If the claim is gone, its release deletes the
// IPAllocation, and the DELETE is answered with Not Found. If the claim exists, release allows the DELETE, and the
// policy ipam-allocations refuses it, by the IPAllocation as the API server read it before this call. If nobody can
// tell, the DELETE fails: the policy would refuse it because of a claim that may be gone.
func (s *server) release(
	ctx context.Context, req *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	record := &ipamv1alpha1.IPAllocation{}
	if err := take(req, record); err != nil {
		return nil, fmt.Errorf("read the IPAllocation: %w", err)
	}
	in, gone := s.in(record), false
	lighten(record, ipamv1alpha1.AnnotationRetainedFrom)
	if in == "" || dry(req) {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}
	err := SleepInTurn(ctx, in.Tenant(record.Namespace), func(ctx context.Context) (err error) {
		gone, err = s.decider().Released(ctx, in, record)
		return err
	})
	switch {
	case gone:
		return fails("ipallocations", record.Name, http.StatusNotFound,
			fmt.Sprintf("ipallocations.%s %q not found: its claim is gone, and it went with it",
				ipamv1alpha1.GroupName, record.Name)), nil
	case err != nil:
		log.FromContext(ctx).Error(err, "a DELETE is not decided", "cluster", in, "record", record.Namespace+"/"+record.Name)
		return fails("ipallocations", record.Name, http.StatusServiceUnavailable,
			"nobody can tell now whether the claim of this allocation is gone: delete it again later"), nil
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}

// in returns the logical cluster of an object; empty if it names none. On kcp it is an annotation that kcp sets,
// whatever the client has sent. Without kcp the annotation does not count, because anybody may write it.
func (s *server) in(object metav1.Object) ledger.ClusterName {
	if s.only != "" {
		return s.only
	}
	return ledger.ClusterName(object.GetAnnotations()[logicalcluster.AnnotationKey])
}

// dry reports whether a request is to change nothing.
func dry(req *admissionv1.AdmissionRequest) bool { return req.DryRun != nil && *req.DryRun }

// Closer decides whether claims that hold a range may be deleted. It is safe for concurrent use.
type Closer interface {
	// CloseRange closes the range that a claim holds, and deletes the IPPool of the range, if nothing is inside any more.
	// Otherwise inside says, for people, what keeps the range, and the range stays as it is. A dry run changes nothing.
	// CloseRange fails if all that is inside may be gone. Then inside says what that is, if it is known.
	CloseRange(
		ctx context.Context, in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, dry bool,
	) (inside string, err error)
}

// undecided is the message of a DELETE that is refused because nobody can tell.
const undecided = "nobody can tell now whether something is inside the range: delete the claim again later"

// closeRange decides about the DELETE of a claim that holds a range. The API server may call it more than once for one
// DELETE. If the API server cannot call the door, the claim is deleted, and the range goes when it is empty.
func (s *server) closeRange(
	ctx context.Context, req *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	claim := &ipamv1alpha1.IPClaim{}
	if err := take(req, claim); err != nil {
		return nil, fmt.Errorf("read the claim: %w", err)
	}
	in, inside := s.in(claim), ""
	lighten(claim)
	if in == "" {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}
	if dry(req) {
		ctx = s.dryRuns.among(ctx)
	}
	err := SleepInTurn(ctx, in.Tenant(claim.Namespace), func(ctx context.Context) (err error) {
		inside, err = s.decider().CloseRange(ctx, in, claim, dry(req))
		return err
	})
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "a DELETE is not decided", "cluster", in, "claim", claim.Namespace+"/"+claim.Name)
		return fails("ipclaims", claim.Name, http.StatusServiceUnavailable, cmp.Or(inside, undecided)), nil
	case inside != "":
		return fails("ipclaims", claim.Name, http.StatusConflict, inside), nil
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}
