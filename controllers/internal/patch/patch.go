// Package patch writes the changes of a reconcile to an object, with the fewest calls: none if nothing has changed, one
// for metadata and spec, and one for the status.
//
//	before := patch.Snapshot(obj)
//	... mutate obj ...
//	err := before.Patch(ctx, client, obj)
//
// Both writes carry the resourceVersion that was read, so they never overwrite the write of another client. After such
// a write, the write of metadata and spec fails with a conflict, and the retried reconcile decides again from the
// current object. The status is sent once more, if the facts on which it was decided have not changed: see sendStatus.
//
// Some status fields only repeat others for the columns of kubectl get. They are written together with other fields,
// and never by themselves: an object that an older version wrote gets them with its next change.
//
// The status of an IPClaim is written in the version v1controller1.
package patch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Helper remembers an object as it was read. It is used once, by one goroutine.
type Helper struct {
	before client.Object
}

// Snapshot remembers obj as it is now.
func Snapshot(obj client.Object) *Helper {
	return &Helper{before: copyOf(obj)}
}

// Was returns the remembered object. It must not be changed.
func (h *Helper) Was() client.Object { return h.before }

// Patch sends the differences from the snapshot: first metadata and spec, then the status. If the first write fails,
// the second is not sent. If the object was being deleted, and is gone, the write counts as successful, except for the
// status of an IPClaim. On success obj has the server's answer.
func (h *Helper) Patch(ctx context.Context, c client.Client, obj client.Object) error {
	if reflect.DeepEqual(h.before, obj) || equality.Semantic.DeepEqual(h.before, obj) {
		return nil // as most passes find it; reflect is cheaper, and what follows costs far more
	}
	before, after, err := h.halves(obj)
	if err != nil {
		return err
	}
	if changes := diff(before.main, after.main); len(changes) > 0 {
		if err := h.send(ctx, c, obj, changes); err != nil {
			return ignoreGone(obj, fmt.Errorf("patch metadata and spec: %w", err))
		}
		if err := setStatus(obj, after.status); err != nil {
			return err
		}
	}
	if !matters(diff(before.status, after.status)) {
		return nil
	}
	return ignoreGoneStatus(obj, sendStatus(ctx, c.Status(), obj, before.status, after.status))
}

// PatchWhole sends the differences from the snapshot of an object that has no status subresource, in one call at most.
// All else is as in Patch.
func (h *Helper) PatchWhole(ctx context.Context, c client.Client, obj client.Object) error {
	before, after, err := h.halves(obj)
	if err != nil {
		return err
	}
	changes := diff(before.main, after.main)
	if status := diff(before.status, after.status); len(status) > 0 {
		changes["status"] = status
	}
	if len(changes) == 0 {
		return nil
	}
	return ignoreGone(obj, h.send(ctx, c, obj, changes))
}

// halves takes the object apart, as it was and as it is.
func (h *Helper) halves(obj client.Object) (before, after halves, err error) {
	if before, err = split(h.before); err == nil {
		after, err = split(obj)
	}
	if err != nil {
		err = fmt.Errorf("patch %s: %w", obj.GetName(), err)
	}
	return before, after, err
}

// send patches the object itself.
func (h *Helper) send(ctx context.Context, c client.Client, obj client.Object, changes map[string]any) error {
	if err := h.hasAllFinalizers(changes); err != nil {
		return err
	}
	patch, err := merge(obj, changes)
	if err != nil {
		return err
	}
	return c.Patch(ctx, obj, patch)
}

// hasAllFinalizers returns an error if a patch would send finalizers, and the snapshot may lack some. A merge patch
// would remove these, although their owners still wait for them.
func (h *Helper) hasAllFinalizers(changes map[string]any) error {
	metadata, _ := changes["metadata"].(map[string]any)
	if _, sent := metadata["finalizers"]; sent && len(h.before.GetFinalizers()) > ipamv1alpha1.MaxFinalizers {
		return fmt.Errorf("it has more than %d finalizers; remove some of them", ipamv1alpha1.MaxFinalizers)
	}
	return nil
}

// merge returns a JSON merge patch (RFC 7396) with the changes. The patch fails if obj was written since it was read.
func merge(obj client.Object, changes map[string]any) (client.Patch, error) {
	metadata, ok := changes["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		changes["metadata"] = metadata
	}
	metadata["resourceVersion"] = obj.GetResourceVersion()
	data, err := json.Marshal(changes)
	return client.RawPatch(types.MergePatchType, data), err
}

func copyOf(obj client.Object) client.Object {
	return obj.DeepCopyObject().(client.Object)
}

// setStatus puts the wanted status back on an object that a write has
// overwritten with the server's answer.
func setStatus(obj client.Object, status map[string]any) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return fmt.Errorf("restore status: %w", err)
	}
	content["status"] = status
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj); err != nil {
		return fmt.Errorf("restore status: %w", err)
	}
	return nil
}

// ignoreGoneStatus returns the error of a status write, unless the object was being deleted and is gone. For an
// IPClaim, "not found" stays an error, because kcp also answers so while it moves a workspace to another schema.
func ignoreGoneStatus(obj client.Object, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("patch status: %w", err)
	if _, isClaim := obj.(*ipamv1alpha1.IPClaim); isClaim {
		return err
	}
	return ignoreGone(obj, err)
}

func ignoreGone(obj client.Object, err error) error {
	if apierrors.IsNotFound(err) && !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return err
}

// ConflictDelay is how long a queue waits after a pass that failed because its cache lagged behind a write.
const ConflictDelay = 50 * time.Millisecond

// Reconcile calls pass, which may change obj, and then writes the changes. It writes them even if pass has failed,
// because the status says why. It returns the errors of both.
func Reconcile(ctx context.Context, c client.Client, obj client.Object, pass func(context.Context) error) error {
	before := Snapshot(obj)
	err := pass(ctx)
	if patchErr := before.Patch(ctx, c, obj); patchErr != nil {
		return errors.Join(err, patchErr)
	}
	return err
}

// Requeue returns the result of a reconcile that ended with err. After a conflict, the object is requeued after
// ConflictDelay, because a conflict only means that the cache lags.
func Requeue(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: ConflictDelay}, nil
	}
	return reconcile.Result{}, err
}

// halves are an object's JSON without its status, and the status.
type halves struct {
	main, status map[string]any
}

// split takes an object apart. It leaves out managedFields, which are large. It sorts lists whose order means nothing.
func split(obj client.Object) (halves, error) {
	obj = copyOf(obj)
	obj.SetManagedFields(nil)
	slices.Sort(obj.GetFinalizers())
	main, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return halves{}, err
	}
	status, _ := main["status"].(map[string]any)
	delete(main, "status")
	sortConditions(status)
	return halves{main: main, status: status}, nil
}

// sortConditions puts the conditions of a status in the order of their types.
func sortConditions(status map[string]any) {
	conditions, _ := status[conditionsField].([]any)
	slices.SortStableFunc(conditions, func(a, b any) int { return cmp.Compare(typeOf(a), typeOf(b)) })
}

// diff returns the JSON merge patch that turns before into after; empty if they are equal.
func diff(before, after map[string]any) map[string]any {
	changes := map[string]any{}
	for key := range before {
		if _, stays := after[key]; !stays {
			changes[key] = nil
		}
	}
	for key, wanted := range after {
		if equality.Semantic.DeepEqual(before[key], wanted) {
			continue
		}
		oldFields, isObject := before[key].(map[string]any)
		fields, staysObject := wanted.(map[string]any)
		if isObject && staysObject {
			wanted = diff(oldFields, fields)
		}
		changes[key] = wanted
	}
	return changes
}
