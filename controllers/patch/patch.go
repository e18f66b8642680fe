// Package patch writes what a reconcile changed about an object, with the
// fewest calls: none when nothing changed, one for metadata and spec, one for
// status, never more.
//
//	before, err := patch.Snapshot(obj)
//	... mutate obj ...
//	err = before.Patch(ctx, client, obj)
//
// Both writes carry the resourceVersion that was read, so they never overwrite
// what somebody else wrote meanwhile: they fail with a conflict, and the
// reconcile that is retried decides again from what is there.
package patch

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Helper remembers an object as it was read. It is used once, by one goroutine.
type Helper struct {
	main   map[string]any
	status any
}

// Snapshot remembers obj as it is now.
func Snapshot(obj client.Object) (*Helper, error) {
	main, status, err := split(obj)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", obj.GetName(), err)
	}
	return &Helper{main: main, status: status}, nil
}

// Patch sends what differs from the snapshot: first metadata and spec, then
// status. If the first fails the second is not sent. An object that is being
// deleted and is gone by now counts as written. On success obj holds what the
// server answered.
func (h *Helper) Patch(ctx context.Context, c client.Client, obj client.Object) error {
	main, status, err := split(obj)
	if err != nil {
		return fmt.Errorf("patch %s: %w", obj.GetName(), err)
	}
	if !equality.Semantic.DeepEqual(h.main, main) {
		if err := h.patchMain(ctx, c, obj, main); err != nil {
			return ignoreGone(obj, fmt.Errorf("patch metadata and spec: %w", err))
		}
		if err := setStatus(obj, status); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(h.status, status) {
		return nil
	}
	data, err := diff(obj.GetResourceVersion(),
		map[string]any{"status": h.status}, map[string]any{"status": status})
	if err != nil {
		return err
	}
	if err := c.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, data)); err != nil {
		return ignoreGone(obj, fmt.Errorf("patch status: %w", err))
	}
	return nil
}

func (h *Helper) patchMain(ctx context.Context, c client.Client, obj client.Object, main map[string]any) error {
	data, err := diff(obj.GetResourceVersion(), h.main, main)
	if err != nil {
		return err
	}
	return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, data))
}

// split gives the object's JSON without its status, and the status.
func split(obj client.Object) (map[string]any, any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, nil, err
	}
	status := content["status"]
	if m, ok := status.(map[string]any); !ok || m == nil {
		status = map[string]any{}
	}
	delete(content, "status")
	return content, status, nil
}

// diff is the JSON merge patch (RFC 7396) from before to after, bound to a resourceVersion.
func diff(resourceVersion string, before, after map[string]any) ([]byte, error) {
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	wanted, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	raw, err := jsonpatch.CreateMergePatch(old, wanted)
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	meta, _ := body["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["resourceVersion"] = resourceVersion
	body["metadata"] = meta
	return json.Marshal(body)
}

// setStatus puts the wanted status back on an object that a write has
// overwritten with the server's answer.
func setStatus(obj client.Object, status any) error {
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
