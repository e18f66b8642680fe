// Package patch writes what a reconcile changed about an object, with the
// fewest calls: none when nothing changed, one for metadata and spec, one for
// status, never more.
//
//	before := patch.Snapshot(obj)
//	... mutate obj ...
//	err := before.Patch(ctx, client, obj)
//
// Both writes carry the resourceVersion that was read, so they never overwrite
// what somebody else wrote meanwhile: they fail with a conflict, and the
// reconcile that is retried decides again from what is there.
package patch

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Helper remembers an object as it was read. It is used once, by one goroutine.
type Helper struct {
	before client.Object
}

// Snapshot remembers obj as it is now.
func Snapshot(obj client.Object) *Helper {
	return &Helper{before: copyOf(obj)}
}

// Patch sends what differs from the snapshot: first metadata and spec, then
// status. If the first fails the second is not sent. An object that is being
// deleted and is gone by now counts as written. On success obj holds what the
// server answered.
func (h *Helper) Patch(ctx context.Context, c client.Client, obj client.Object) error {
	if equality.Semantic.DeepEqual(h.before, obj) {
		return nil // as most passes find it; what follows costs far more
	}
	oldMain, oldStatus, err := split(h.before)
	if err != nil {
		return fmt.Errorf("patch %s: %w", obj.GetName(), err)
	}
	main, status, err := split(obj)
	if err != nil {
		return fmt.Errorf("patch %s: %w", obj.GetName(), err)
	}
	if changes := diff(oldMain, main); len(changes) > 0 {
		patch, err := merge(obj, changes)
		if err != nil {
			return err
		}
		if err := c.Patch(ctx, obj, patch); err != nil {
			return ignoreGone(obj, fmt.Errorf("patch metadata and spec: %w", err))
		}
		if err := setStatus(obj, status); err != nil {
			return err
		}
	}
	changes := diff(oldStatus, status)
	if len(changes) == 0 {
		return nil
	}
	patch, err := merge(obj, map[string]any{"status": changes})
	if err != nil {
		return err
	}
	if err := c.Status().Patch(ctx, obj, patch); err != nil {
		return ignoreGone(obj, fmt.Errorf("patch status: %w", err))
	}
	return nil
}

// merge is a JSON merge patch (RFC 7396) that makes the changes, if obj is still as
// it was read.
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

// split gives the object's JSON without its status, and the status. What the
// server keeps of who set which field is left out: it is large, and not ours.
func split(obj client.Object) (main, status map[string]any, err error) {
	obj = copyOf(obj)
	obj.SetManagedFields(nil)
	main, err = runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, nil, err
	}
	status, _ = main["status"].(map[string]any)
	delete(main, "status")
	return main, status, nil
}

// diff is what a JSON merge patch has to say to make before like after: nothing
// when they are alike.
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

func ignoreGone(obj client.Object, err error) error {
	if apierrors.IsNotFound(err) && !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return err
}
