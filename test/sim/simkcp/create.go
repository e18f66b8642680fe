package simkcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
)

// create stores an object if admission admits it. The request was routed a moment ago, by the binding of that moment.
func (w *World) create(ctx context.Context, q request, o *unstructured.Unstructured) ([]byte, *apierrors.StatusError) {
	if refusal := q.creatable(o); refusal != nil {
		return nil, refusal
	}
	form := formOf(q)
	form.admit(o.Object)
	o.SetNamespace(q.namespace)
	q.name = o.GetName()
	if q.terminating {
		return nil, apierrors.NewForbidden(q.resource(), o.GetName(), errors.New("create not allowed while custom resource definition is terminating"))
	}
	if q.group == ipamGroup {
		o.SetManagedFields(sent(q, o))
		annotate(o, logicalcluster.AnnotationKey, q.cluster)
	}
	admits := w.admits(q)
	if refusal := w.alive(q); refusal != nil {
		return nil, refusal
	}
	if admits {
		var refusal *apierrors.StatusError
		if o, refusal = w.mutate(ctx, q, admission.Create, o, nil); refusal != nil {
			return nil, refusal
		}
	}
	if q.serves(q.version, "status") {
		delete(o.Object, "status")
	}
	w.generateName(o)
	q.name = o.GetName()
	w.identify(q.table, q.place(), o)
	errs := validation.ValidateObjectMetaAccessor(o, q.namespaced, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if errs = form.refusals(ctx, errs, o.Object, nil); len(errs) > 0 {
		return nil, apierrors.NewInvalid(q.gvk(q.version).GroupKind(), q.name, errs)
	}
	if admits {
		if refusal := w.validate(ctx, q, admission.Create, o, nil); refusal != nil {
			return nil, refusal
		}
	}
	d := w.Delay("CREATE " + q.plural)
	if d < 0 {
		return nil, apierrors.NewTimeoutError("the request was not completed", 1)
	}
	pause(ctx, d)
	form.fill(o.Object)
	switch q.plural {
	case "namespaces":
		readyNamespace(o)
	case "apibindings":
		o.SetFinalizers(append(o.GetFinalizers(), bindingFinalizer))
	}
	return w.add(q, o)
}

// terminating reports whether the binding that serves a request is being deleted. mu is held.
func (w *World) terminating(q request) bool {
	if q.group != ipamGroup || q.cluster == "" || q.cluster == Platform {
		return false
	}
	binding := w.serving(q.cluster)
	return binding != nil && binding.GetDeletionTimestamp() != nil
}

// add stores an object that was admitted.
func (w *World) add(q request, o *unstructured.Unstructured) ([]byte, *apierrors.StatusError) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.StoreUnbound && !w.served(q.table, q.scope) {
		return nil, apierrors.NewNotFound(q.resource(), "")
	}
	if !q.dry {
		if q.plural == "apibindings" {
			w.binds(q.place())
		}
		return w.store(q.table, q.place(), o)
	}
	if _, ok := q.objects[q.place()]; ok {
		return nil, apierrors.NewAlreadyExists(q.resource(), q.name)
	}
	return dried(o), nil
}

// creatable refuses an object that does not fit the URL, and takes from the object the fields that a server sets.
func (q request) creatable(o *unstructured.Unstructured) *apierrors.StatusError {
	if refusal := q.typed(o); refusal != nil {
		return refusal
	}
	if namespace := o.GetNamespace(); namespace != "" && namespace != q.namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if o.GetResourceVersion() != "" {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "resourceVersion should not be set on objects to be created",
		}}
	}
	o.SetUID("")
	o.SetGeneration(0)
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(o.Object, "metadata", "generation")
	return nil
}

// typed refuses an object whose kind or version is not that of the URL. The simulation's own users may leave both
// out.
func (q request) typed(o *unstructured.Unstructured) *apierrors.StatusError {
	if version := o.GetAPIVersion(); version != "" && version != q.apiVersion(q.version) {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the API version in the data (%s) does not match the expected API version (%s)", version, q.apiVersion(q.version)))
	}
	if kind := o.GetKind(); kind != "" && kind != q.kind.name {
		return apierrors.NewInvalid(schema.GroupKind{Group: q.group, Kind: kind}, o.GetName(), field.ErrorList{
			field.Invalid(field.NewPath("kind"), kind, "must be "+q.kind.name),
		})
	}
	return nil
}

// alive refuses a CREATE in a namespace that is not there, or is being deleted.
func (w *World) alive(q request) *apierrors.StatusError {
	if q.group != ipamGroup || q.namespace == "" {
		return nil
	}
	namespaces := w.tables["/namespaces"]
	w.mu.Lock()
	namespace, ok := namespaces.objects[place{q.cluster, "", q.namespace}]
	w.mu.Unlock()
	if !ok {
		return apierrors.NewNotFound(namespaces.resource(), q.namespace)
	}
	if parse(namespace).GetDeletionTimestamp() == nil {
		return nil
	}
	refused := apierrors.NewForbidden(q.resource(), q.name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", q.namespace))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", q.namespace), Field: "metadata.namespace",
	})
	return refused
}

// generateName names an object that wants a name.
func (w *World) generateName(o *unstructured.Unstructured) {
	if o.GetName() != "" || o.GetGenerateName() == "" {
		return
	}
	o.SetName(fmt.Sprintf("%sg%04d", o.GetGenerateName(), w.uids.Add(1)))
}

// sent returns the fields that a client sent in a CREATE. A list counts as one field.
func sent(q request, o *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	fields := map[string]any{}
	for key, value := range o.Object {
		if key != "metadata" && key != "apiVersion" && key != "kind" {
			fields["f:"+key] = inside(value)
		}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(errors.Join(errors.New("marshal the fields of an object"), err))
	}
	return []metav1.ManagedFieldsEntry{{
		Manager: q.user, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: q.apiVersion(q.version),
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw},
	}}
}

// inside returns the fields of a value.
func inside(value any) map[string]any {
	fields := map[string]any{}
	if object, ok := value.(map[string]any); ok {
		for key, v := range object {
			fields["f:"+key] = inside(v)
		}
	}
	return fields
}
