package patch

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ConflictDelay is how long a pass waits for its cache to catch up with a write that it did not see.
const ConflictDelay = 50 * time.Millisecond

// Reconcile has a pass change obj, and then writes what it changed: also if it failed, as the
// status says why. It returns the errors of both.
func Reconcile(ctx context.Context, c client.Client, obj client.Object, pass func(context.Context) error) error {
	before := Snapshot(obj)
	err := pass(ctx)
	if patchErr := before.Patch(ctx, c, obj); patchErr != nil {
		return errors.Join(err, patchErr)
	}
	return err
}

// Requeue is what a queue is to do after a pass that ended with err. A conflict says only that the
// cache lags behind.
func Requeue(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: ConflictDelay}, nil
	}
	return reconcile.Result{}, err
}
