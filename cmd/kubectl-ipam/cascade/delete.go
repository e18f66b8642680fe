package cascade

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// askAgain is how long a range whose release was refused is left alone.
const askAgain = 500 * time.Millisecond

// Deletion deletes objects that may hold something a moment longer: a range or a pool whose claims were released just
// before, or an allocation whose status follows its use.
type Deletion struct {
	client.WithWatch
	// Patience is how long the server is asked again that refuses. It counts from the last allocation of the workspace
	// that went: ten thousand go one after another.
	Patience time.Duration
	// Whole makes Patience count from the beginning.
	Whole bool
	// Tell is called with words for people on how far it is. Default: nobody is told.
	Tell func(words string)
}

// Do deletes an object. An object that is not there counts as deleted. When its patience or ctx ends, Do returns the
// last refusal.
func (d Deletion) Do(ctx context.Context, object client.Object) error {
	patient, cancel := context.WithCancel(ctx)
	defer cancel()
	end := time.AfterFunc(d.Patience, cancel)
	defer end.Stop()
	uid, least := object.GetUID(), int64(-1)
	for refused := error(nil); ; {
		err := d.Delete(ctx, object, client.Preconditions{UID: &uid})
		if refused != nil && errors.Is(err, context.DeadlineExceeded) {
			return refused
		}
		if !holds(object, err) {
			return client.IgnoreNotFound(err)
		}
		refused = err
		if left, known := d.left(patient, object); known && (least < 0 || left < least) {
			if least >= 0 && !d.Whole {
				end.Reset(d.Patience)
			}
			least = left
			d.tell(object, left)
		}
		switch err := d.change(patient, object); {
		case errors.Is(err, ipamclient.ErrGone):
			return nil
		case errors.Is(context.Cause(ctx), context.Canceled):
			return ctx.Err()
		case patient.Err() != nil:
			return refused
		case err != nil:
			return err
		}
	}
}

// holds reports whether an object is not deleted because it holds something, as far as the server knows now.
func holds(object client.Object, err error) bool {
	if claim, ok := object.(*ipamv1alpha1.IPClaim); ok {
		return claim.Spec.Target == ipamv1alpha1.TargetScopeRange &&
			(apierrors.IsConflict(err) || apierrors.IsServiceUnavailable(err))
	}
	return apierrors.IsInvalid(err)
}

// left counts the allocations that the caller may list, in the workspace or else in the namespace of the object. The
// server says how many there are with the first of them.
func (d Deletion) left(ctx context.Context, object client.Object) (n int64, known bool) {
	for _, namespace := range []string{"", object.GetNamespace()} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind("IPAllocationList"))
		if err := d.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
			continue
		}
		n = int64(len(list.Items))
		if list.RemainingItemCount != nil {
			n += *list.RemainingItemCount
		}
		return n, true
	}
	return 0, false // the patience is not renewed
}

func (d Deletion) tell(object client.Object, left int64) {
	if d.Tell != nil {
		d.Tell(fmt.Sprintf("waiting for %s %s to be empty: %d allocations are left in the workspace",
			facts.Kind(object), facts.Name(object), left))
	}
}

// change waits until an object that was refused has changed: pools and allocations are refused by their status. A claim
// does not change when its range is empty.
func (d Deletion) change(ctx context.Context, object client.Object) error {
	if _, ok := object.(*ipamv1alpha1.IPClaim); ok {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askAgain):
			return nil
		}
	}
	seen := object.GetResourceVersion()
	return ipamclient.Until(ctx, d, object, func() bool { return object.GetResourceVersion() != seen })
}
