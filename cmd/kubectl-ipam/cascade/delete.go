package cascade

import (
	"cmp"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// askAgain is how long a range whose release was refused is left alone.
const askAgain = 500 * time.Millisecond

// Delete deletes an object. An object that is not there counts as deleted. For so long as patience says, the server is asked
// again if it refuses: a range whose claims were released a moment before, or an object whose status follows its use by a
// moment.
func Delete(ctx context.Context, c client.WithWatch, object client.Object, patience time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if claim, ok := object.(*ipamv1alpha1.IPClaim); ok {
		return client.IgnoreNotFound(deleteClaim(ctx, limited, c, claim))
	}
	return deleteFree(ctx, limited, c, object)
}

// deleteClaim asks at intervals: a claim does not change when its range is empty.
func deleteClaim(ctx, limited context.Context, c client.Client, claim *ipamv1alpha1.IPClaim) error {
	uid, refused := claim.UID, error(nil)
	err := poll.PollUntilContextCancel(limited, askAgain, true, func(context.Context) (bool, error) {
		err := c.Delete(ctx, claim, client.Preconditions{UID: &uid})
		if claim.Spec.Target != ipamv1alpha1.TargetScopeRange || !apierrors.IsConflict(err) && !apierrors.IsServiceUnavailable(err) {
			return true, err
		}
		refused = err
		return false, nil
	})
	if ctx.Err() == nil && limited.Err() != nil && refused != nil {
		return refused
	}
	return err
}

// deleteFree watches an object that is refused. The server refuses a pool that holds blocks, and an allocation that has a
// claim, by their status.
func deleteFree(ctx, limited context.Context, c client.WithWatch, object client.Object) error {
	uid, refused := object.GetUID(), error(nil)
	for {
		err := c.Delete(ctx, object, client.Preconditions{UID: &uid})
		if errors.Is(err, context.DeadlineExceeded) {
			return cmp.Or(refused, err)
		}
		if !apierrors.IsInvalid(err) {
			return client.IgnoreNotFound(err)
		}
		refused = err
		seen := object.GetResourceVersion()
		err = ipamclient.Until(limited, c, object, func() bool { return object.GetResourceVersion() != seen })
		switch {
		case errors.Is(err, ipamclient.ErrGone):
			return nil
		case errors.Is(err, context.DeadlineExceeded):
			return refused
		case err != nil:
			return err
		}
	}
}
