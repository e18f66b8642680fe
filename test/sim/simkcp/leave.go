package simkcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// recheck is how long kcp waits before it looks again at objects that finalizers hold.
const recheck = 3 * time.Second

// Unbind deletes the APIBinding of a workspace, and waits. kcp deletes the objects kind by kind, past admission, and
// finalizers hold the binding. step is the pause between two objects. Unbind returns true when the binding is gone,
// and false after two minutes.
func (w *World) Unbind(cluster string, step time.Duration) bool {
	ctx, cancel := context.WithTimeout(w.ctx, 2*time.Minute)
	defer cancel()
	p := place{cluster, "", "ipam"}
	w.mu.Lock()
	binding, _ := w.take(w.tables[kcpGroup+"/apibindings"], p)
	w.mu.Unlock()
	return binding != nil && w.leave(ctx, p, step)
}

// leave does the work of kcp for an APIBinding that is being deleted, until it is gone or ctx ends. An object that is
// stored after its kind was listed for the last time stays, and nothing serves it.
func (w *World) leave(ctx context.Context, p place, step time.Duration) bool {
	t := w.tables[kcpGroup+"/apibindings"]
	for ctx.Err() == nil {
		pause(ctx, step)
		var left []*unstructured.Unstructured
		w.mu.Lock()
		binding, ok := t.objects[p]
		w.mu.Unlock()
		if !ok {
			return true
		}
		if isBound(parse(binding)) {
			left = w.clear(ctx, owned, scope{cluster: p.cluster}, step)
		}
		pause(ctx, 2*time.Millisecond) // kcp hears of its own change, and lists again
		switch changed := w.remain(t, p, left); {
		case len(left) == 0 && w.unfinalize(t, p):
			return true
		case !changed:
			pause(ctx, recheck)
		}
	}
	return false
}

// clear deletes the objects of some resources in a scope, and returns all that it found.
func (w *World) clear(ctx context.Context, plurals []string, in scope, step time.Duration) (was []*unstructured.Unstructured) {
	for _, plural := range plurals {
		t := w.tables[ipamGroup+"/"+plural]
		if in.namespace != "" && !t.namespaced {
			continue
		}
		w.mu.Lock()
		objects := t.list(in)
		w.mu.Unlock()
		for _, b := range objects {
			o := parse(b)
			was = append(was, o)
			w.mu.Lock()
			w.take(t, place{in.cluster, o.GetNamespace(), o.GetName()})
			w.mu.Unlock()
			pause(ctx, step)
		}
	}
	return was
}

// remain writes into the conditions of an APIBinding which of its objects are left. It reports whether that is new.
func (w *World) remain(t *table, p place, left []*unstructured.Unstructured) bool {
	if len(left) == 0 {
		return false
	}
	held, kinds := map[string]int{}, map[string]int{}
	for _, o := range left {
		kinds[strings.ToLower(o.GetKind())+"s."+ipamGroup]++
		for _, finalizer := range o.GetFinalizers() {
			held[finalizer]++
		}
	}
	reason, message := "SomeResourcesRemain", "Some resources are remaining: "+counted(kinds, "%s has %d resource instances")
	if len(held) > 0 {
		reason = "SomeFinalizersRemain"
		message = "Some content in the workspace has finalizers remaining: " + counted(held, "%s in %d resource instances")
	}
	return w.condition(t, p, "BindingResourceDeleteSuccess", reason, message)
}

// counted lists counts in order.
func counted(counts map[string]int, format string) string {
	list := make([]string, 0, len(counts))
	for name, n := range counts {
		list = append(list, fmt.Sprintf(format, name, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// condition makes a condition of a stored object false. It reports whether the object changed.
func (w *World) condition(t *table, p place, kind, reason, message string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := t.objects[p]
	if !ok {
		return false
	}
	o := parse(b)
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	is := func(one any) bool { return one.(map[string]any)["type"] == kind }
	if i := slices.IndexFunc(list, is); i >= 0 && list[i].(map[string]any)["message"] == message {
		return false
	}
	list = append(slices.DeleteFunc(list, is), map[string]any{
		"type": kind, "status": string(metav1.ConditionFalse), "severity": "Error", "reason": reason, "message": message,
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	})
	if err := unstructured.SetNestedSlice(o.Object, list, "status", "conditions"); err != nil {
		panic(err)
	}
	w.commit(t, p, modified, o)
	return true
}

// unfinalize takes the finalizer of kcp off an APIBinding that is being deleted. It reports whether the binding is
// gone. Then another APIBinding of the workspace takes over.
func (w *World) unfinalize(t *table, p place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := t.objects[p]
	if !ok {
		return true
	}
	o := parse(b)
	if finalizers := slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == bindingFinalizer }); len(finalizers) > 0 {
		if len(finalizers) < len(o.GetFinalizers()) {
			o.SetFinalizers(finalizers)
			w.commit(t, p, modified, o)
		}
		return false
	}
	o.SetFinalizers(nil)
	w.commit(t, p, deleted, o)
	for other := range t.objects {
		if other.cluster == p.cluster {
			w.binds(other)
		}
	}
	return true
}
