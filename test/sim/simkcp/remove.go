package simkcp

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// remove deletes an object, or marks it as being deleted if it has finalizers. If the object changes while admission
// is asked, remove reads it again, and asks admission again.
func (w *World) remove(ctx context.Context, q request, options *metav1.DeleteOptions) ([]byte, *apierrors.StatusError) {
	for {
		w.mu.Lock()
		stored, ok := q.objects[q.place()]
		w.mu.Unlock()
		if !ok {
			return nil, apierrors.NewNotFound(q.resource(), q.name)
		}
		o := parse(stored)
		if refusal := q.preconditions(o, options.Preconditions); refusal != nil {
			return nil, refusal
		}
		if refusal := w.admitRemoval(ctx, q, parse(q.in(stored))); refusal != nil {
			return nil, refusal
		}
		pause(ctx, w.Delay("DELETE "+q.plural))
		if answered, done := w.finish(q, stored); done {
			return answered, nil
		}
	}
}

// admitRemoval asks admission for a DELETE.
func (w *World) admitRemoval(ctx context.Context, q request, o *unstructured.Unstructured) *apierrors.StatusError {
	if !w.admits(q) {
		return nil
	}
	if _, refusal := w.mutate(ctx, q, admission.Delete, nil, o); refusal != nil {
		return refusal
	}
	return w.validate(ctx, q, admission.Delete, nil, o)
}

// finish deletes an object. It reports false if the stored object has changed.
func (w *World) finish(q request, stored []byte) ([]byte, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, ok := q.objects[q.place()]
	if !ok || string(now) != string(stored) {
		return nil, false
	}
	after := parse(stored)
	gone := len(after.GetFinalizers()) == 0
	if !q.dry {
		after, gone = w.take(q.table, q.place())
		if parse(stored).GetDeletionTimestamp() == nil {
			w.ended(q.table, q.place(), w.Step)
		}
	}
	if !gone {
		leave(after)
		return text(after), true
	}
	return text(&unstructured.Unstructured{Object: map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": metav1.StatusSuccess,
		"details": map[string]any{"name": q.name, "group": q.group, "kind": q.plural, "uid": string(after.GetUID())},
	}}), true
}

// preconditions refuses a DELETE whose preconditions name another UID or version than the object has.
func (q request) preconditions(o *unstructured.Unstructured, must *metav1.Preconditions) *apierrors.StatusError {
	if must == nil {
		return nil
	}
	of := schema.GroupResource{Group: q.group, Resource: q.gvk(q.version).Kind}
	if must.UID != nil && *must.UID != o.GetUID() {
		return apierrors.NewConflict(of, q.name, errors.New(
			"Precondition failed: UID in precondition: "+string(*must.UID)+", UID in object meta: "+string(o.GetUID())))
	}
	if must.ResourceVersion != nil && *must.ResourceVersion != o.GetResourceVersion() {
		return apierrors.NewConflict(of, q.name, errors.New(
			"Precondition failed: ResourceVersion in precondition: "+*must.ResourceVersion+", ResourceVersion in object meta: "+o.GetResourceVersion()))
	}
	return nil
}
