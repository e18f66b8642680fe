package simkcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/kcp-dev/logicalcluster/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
)

// full is the patch type of an UPDATE, which has no patch.
const full types.PatchType = ""

// change updates or patches an object. If the object changes meanwhile, change reads it and applies the patch again.
func (w *World) change(ctx context.Context, q request, patch types.PatchType, body []byte) ([]byte, *apierrors.StatusError) {
	for {
		w.mu.Lock()
		stored, ok := q.objects[q.place()]
		w.mu.Unlock()
		if !ok {
			return nil, apierrors.NewNotFound(q.resource(), q.name)
		}
		before := parse(q.in(stored))
		wanted, refusal := q.wanted(before, q.in(stored), patch, body)
		if refusal != nil {
			return nil, refusal
		}
		after := q.keep(before, wanted)
		if refusal = w.admitChange(ctx, q, before, &after); refusal != nil {
			return nil, refusal
		}
		bare := q.subresource != "status" && wanted.GetAnnotations()[logicalcluster.AnnotationKey] != q.cluster
		if answered, done := w.replace(q, stored, before, after, bare); done {
			return answered, nil
		}
	}
}

// wanted returns the object that a request asks for. Its parameter stored is the stored object before, as text.
func (q request) wanted(before *unstructured.Unstructured, stored []byte, patch types.PatchType, body []byte) (*unstructured.Unstructured, *apierrors.StatusError) {
	wanted, refusal := patched(before, stored, patch, body)
	if refusal != nil {
		return nil, refusal
	}
	if !equality.Semantic.DeepEqual(wanted.Object["metadata"], before.Object["metadata"]) {
		if err := coerce(wanted); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if refusal := q.typed(wanted); refusal != nil {
		return nil, refusal
	}
	if name := wanted.GetName(); name != q.name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", name, q.name))
	}
	return wanted, q.conditional(before, wanted, patch)
}

// patched returns an object with a patch applied. Its parameter stored is the same object as text.
func patched(before *unstructured.Unstructured, stored []byte, patch types.PatchType, body []byte) (*unstructured.Unstructured, *apierrors.StatusError) {
	merged, err := body, error(nil)
	switch patch {
	case full:
	case types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(body); err == nil {
			merged, err = operations.Apply(stored)
			if err != nil {
				return nil, apierrors.NewGenericServerResponse(422, "", schema.GroupResource{}, "", err.Error(), 0, false)
			}
		}
	case types.MergePatchType, types.ApplyYAMLPatchType:
		if changes, err := read(body); err == nil && changes.Object != nil { // most patches, and cheaper than as text
			wanted := before.DeepCopy()
			merge(wanted.Object, changes.Object)
			return wanted, nil
		}
		merged, err = jsonpatch.MergePatch(stored, body)
	default:
		return nil, unknownPatch()
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	wanted, err := read(merged)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return wanted, nil
}

// merge applies a merge patch to an object, as jsonpatch.MergePatch does to text. The object then shares parts of the
// patch.
func merge(object, patch map[string]any) {
	for key, value := range patch {
		inside, isObject := value.(map[string]any)
		had, wasObject := object[key].(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case isObject && wasObject:
			merge(had, inside)
		default:
			object[key] = withoutNulls(value)
		}
	}
}

// withoutNulls removes the fields that are null from a value, but keeps the nulls in a list.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, field any) bool { return withoutNulls(field) == nil })
	case []any:
		for i := range value {
			value[i] = withoutNulls(value[i])
		}
	}
	return value
}

// unknownPatch refuses a patch of a type that custom resources do not have.
func unknownPatch() *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
	}}
}

// conditional refuses a change of another version than the stored one, and an update of an object with another UID.
func (q request) conditional(before, wanted *unstructured.Unstructured, patch types.PatchType) *apierrors.StatusError {
	if uid := wanted.GetUID(); patch == full && uid != "" && uid != before.GetUID() {
		return apierrors.NewConflict(q.resource(), q.name, errors.New(
			"Precondition failed: UID in precondition: "+string(uid)+", UID in object meta: "+string(before.GetUID())))
	}
	switch wanted.GetResourceVersion() {
	case before.GetResourceVersion():
		return nil
	case "":
		return apierrors.NewInvalid(schema.GroupKind{Group: q.group, Kind: q.plural}, q.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	return apierrors.NewConflict(q.resource(), q.name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

// keep returns the wanted object with only those changes that the request may make.
func (q request) keep(before, wanted *unstructured.Unstructured) *unstructured.Unstructured {
	if q.subresource == "status" {
		after := before.DeepCopy()
		delete(after.Object, "status")
		if status, ok := wanted.Object["status"]; ok {
			after.Object["status"] = status
		}
		formOf(q).admit(after.Object)
		return after
	}
	after := wanted.DeepCopy()
	formOf(q).admit(after.Object)
	after.SetAPIVersion(before.GetAPIVersion())
	after.SetKind(before.GetKind())
	if after.GetNamespace() == "" {
		after.SetNamespace(q.namespace)
	}
	annotate(after, logicalcluster.AnnotationKey, q.cluster)
	if after.GetUID() == "" {
		after.SetUID(before.GetUID())
	}
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	if before.GetDeletionTimestamp() != nil {
		after.SetDeletionTimestamp(before.GetDeletionTimestamp())
		after.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
	}
	after.SetGeneration(before.GetGeneration())
	after.SetManagedFields(before.GetManagedFields())
	q.hold(before, after)
	return after
}

// hold keeps the old status if the kind has a status subresource, and counts the generation.
func (q request) hold(before, after *unstructured.Unstructured) {
	if q.serves(q.version, "status") {
		delete(after.Object, "status")
		if status, ok := before.Object["status"]; ok {
			after.Object["status"] = status
		}
	}
	of := func(o *unstructured.Unstructured) map[string]any {
		content := map[string]any{}
		for key, value := range o.Object {
			if key != "metadata" && key != "apiVersion" && key != "kind" {
				content[key] = value
			}
		}
		return content
	}
	if !equality.Semantic.DeepEqual(of(before), of(after)) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
}

// admitChange asks admission and the schema for a change. A webhook may replace the object.
func (w *World) admitChange(ctx context.Context, q request, before *unstructured.Unstructured, after **unstructured.Unstructured) *apierrors.StatusError {
	admits := w.admits(q)
	if admits {
		mutated, refusal := w.mutate(ctx, q, admission.Update, *after, before)
		if refusal != nil {
			return refusal
		}
		if mutated != *after {
			*after = q.keep(before, mutated)
		}
	}
	errs := validation.ValidateObjectMetaAccessorUpdate(*after, before, field.NewPath("metadata"))
	errs = append(errs, errs...) // a server validates the metadata twice
	if errs = formOf(q).refusals(ctx, errs, (*after).Object, before.Object); len(errs) > 0 {
		return apierrors.NewInvalid(q.gvk(q.version).GroupKind(), q.name, errs)
	}
	if admits {
		return w.validate(ctx, q, admission.Update, *after, before)
	}
	return nil
}

// replace stores a change, and deletes an object whose last finalizer is gone. It reports false if the stored object
// has changed meanwhile. bare says that the request left out the annotation of the cluster. kcp then stores the
// object as it was sent, but compares it with an object that has the annotation, so that it counts as changed.
func (w *World) replace(q request, stored []byte, before, after *unstructured.Unstructured, bare bool) ([]byte, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, ok := q.objects[q.place()]
	if !ok || string(now) != string(stored) {
		return nil, false
	}
	before.SetAPIVersion(q.apiVersion(q.versions[0]))
	after.SetAPIVersion(q.apiVersion(q.versions[0]))
	switch {
	case q.dry && bare:
		return dried(after), true
	case q.dry:
		return text(after), true
	case !bare && !q.bare[q.place()] && equality.Semantic.DeepEqual(before.Object, after.Object):
		return stored, true
	case after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0:
		w.commit(q.table, q.place(), deleted, after)
		return text(after), true // with the revision before
	}
	answered := w.commit(q.table, q.place(), modified, after)
	if bare {
		q.bare[q.place()] = true
	}
	return answered, true
}
