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

// askAgain is the pause before a range is deleted again after the server has refused.
const askAgain = 500 * time.Millisecond

// Deletion deletes objects that the server may refuse to delete for a moment: a range or a pool whose claims were just
// released, or an allocation whose status is not up to date.
type Deletion struct {
	client.WithWatch
	// Patience is how long to try again while the server refuses. Whenever an allocation of the workspace goes, this time
	// starts over: ten thousand of them go one after another.
	Patience time.Duration
	// Whole counts Patience from the beginning of the deletion.
	Whole bool
	// Tell is called with words for people on how many allocations are left. Default: nobody is told.
	Tell func(words string)
}

// Do deletes an object. If the object is not there, it counts as deleted. When Patience is over or ctx ends, Do returns
// the last refusal.
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

// holds reports whether err says that the server does not delete the object yet, because the object still holds
// something.
func holds(object client.Object, err error) bool {
	if claim, ok := object.(*ipamv1alpha1.IPClaim); ok {
		return claim.Spec.Target == ipamv1alpha1.TargetScopeRange &&
			(apierrors.IsConflict(err) || apierrors.IsServiceUnavailable(err))
	}
	return apierrors.IsInvalid(err)
}

// left counts the allocations that the caller may list: those of the workspace, or else those of the object's
// namespace. It asks for one, and the server says how many more there are.
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
	return 0, false // so patience never starts over
}

func (d Deletion) tell(object client.Object, left int64) {
	if d.Tell != nil {
		d.Tell(fmt.Sprintf("waiting for %s %s to be empty: %d allocations are left in the workspace",
			facts.Kind(object), facts.Name(object), left))
	}
}

// change waits until an object that the server refused to delete has changed, because pools and allocations are refused
// by their status. A claim does not change when its range becomes empty: change waits for a short time instead.
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
