package patch

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
)

// attempts is how often a status is sent before Patch returns the conflict.
const attempts = 3

// conditionsField is the one list of a status to which several writers write. Each writer has condition types of its
// own.
const conditionsField = "conditions"

// columns are the status fields that only repeat others, for kubectl get.
var columns = map[string]bool{"lengths": true, "classes": true, "utilization": true, "requested": true}

// matters reports whether a status has changed in other fields than its columns.
func matters(changes map[string]any) bool {
	for field := range changes {
		if !columns[field] {
			return true
		}
	}
	return false
}

// sendStatus patches the status. If another client has written the object meanwhile, sendStatus sends the patch again
// for the new object, unless that client has changed what we decide: a field, or a condition that we change.
func sendStatus(ctx context.Context, c client.StatusWriter, obj client.Object, before, after map[string]any) error {
	wanted := diff(before, after)
	for attempt := 1; ; attempt++ {
		patch, err := merge(obj, map[string]any{"status": wanted})
		if err != nil {
			return err
		}
		conflict := patchStatus(ctx, c, obj, patch)
		if !apierrors.IsConflict(conflict) || attempt == attempts {
			return conflict
		}
		current, err := reread(ctx, c, obj)
		if err != nil {
			return errors.Join(conflict, err)
		}
		theirs, err := split(current)
		if err != nil {
			return errors.Join(conflict, err)
		}
		if !stands(obj, current) || !combine(wanted, before, theirs.status) {
			return conflict
		}
		obj.SetResourceVersion(current.GetResourceVersion())
	}
}

// reread asks the server for the object as it is now. The client reads from a cache, and the stale cache was the cause
// of the conflict. So reread sends an empty patch, which the server answers with the object. The patch is a dry run:
// kcp stores a new object with "annotations": {}, and would drop that field with the first update, even an empty one.
func reread(ctx context.Context, c client.StatusWriter, obj client.Object) (client.Object, error) {
	current := copyOf(obj)
	nothing := client.RawPatch(types.MergePatchType, []byte("{}"))
	if err := patchStatus(ctx, c, current, nothing, client.DryRunAll); err != nil {
		return nil, fmt.Errorf("read %s again: %w", obj.GetName(), err)
	}
	return current, nil
}

// stands reports whether the facts on which a status was decided have not changed.
func stands(decidedOn, current client.Object) bool {
	return decidedOn.GetUID() == current.GetUID() &&
		decidedOn.GetGeneration() == current.GetGeneration() &&
		decidedOn.GetDeletionTimestamp().IsZero() == current.GetDeletionTimestamp().IsZero()
}

// combine adapts the wanted changes to the conditions that other clients have written. It reports false if both sides
// have changed the same condition, or if any other field has changed. We decide all other fields together. If our
// cache lags behind such a write of ours, or of a former leader, the patch lacks each field that is already as we want
// it in the cache, and the status would be half of each.
func combine(wanted, before, theirs map[string]any) bool {
	changed := diff(before, theirs)
	delete(changed, conditionsField)
	if len(changed) > 0 {
		return false
	}
	ours, ok := wanted[conditionsField]
	if !ok {
		return true
	}
	merged, ok := mergeConditions(list(before[conditionsField]), list(ours), list(theirs[conditionsField]))
	wanted[conditionsField] = merged
	return ok
}

// mergeConditions returns our conditions, where they differ from before, and their conditions of all other types. ok is
// false if both sides have changed the same condition.
func mergeConditions(before, ours, theirs []any) (merged []any, ok bool) {
	was, wanted := byType(before), byType(ours)
	for _, condition := range theirs {
		kind := typeOf(condition)
		if equality.Semantic.DeepEqual(was[kind], wanted[kind]) {
			merged = append(merged, condition)
		} else if !equality.Semantic.DeepEqual(was[kind], condition) {
			return ours, false
		}
	}
	there := byType(theirs)
	for _, condition := range ours {
		kind := typeOf(condition)
		if equality.Semantic.DeepEqual(was[kind], condition) {
			continue
		}
		if there[kind] == nil && was[kind] != nil {
			return ours, false // they have removed what we have changed
		}
		merged = append(merged, condition)
	}
	return merged, true
}

func list(value any) []any {
	items, _ := value.([]any)
	return items
}

func byType(conditions []any) map[string]any {
	found := map[string]any{}
	for _, condition := range conditions {
		found[typeOf(condition)] = condition
	}
	return found
}

func typeOf(condition any) string {
	fields, _ := condition.(map[string]any)
	kind, _ := fields["type"].(string)
	return kind
}

// patchStatus patches the status subresource of obj. On success obj has the server's answer.
func patchStatus(
	ctx context.Context, c client.StatusWriter, obj client.Object, patch client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	claim, ok := obj.(*ipamv1alpha1.IPClaim)
	if !ok {
		return c.Patch(ctx, obj, patch, opts...)
	}
	answer := &v1controller1.IPClaim{}
	answer.Namespace, answer.Name = claim.Namespace, claim.Name
	err := c.Patch(ctx, answer, patch, opts...)
	if unserved(err) {
		// Schemas older than this version have the subresource in v1alpha1. kcp serves them
		// until it has moved the workspace, and after a downgrade.
		return c.Patch(ctx, claim, patch, opts...)
	}
	if err != nil {
		return err
	}
	answer.TypeMeta = claim.TypeMeta
	*claim = answer.IPClaim
	return nil
}

// unserved reports whether the server may not serve a version. The object may also be gone: kcp answers both with the
// same 404.
func unserved(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
