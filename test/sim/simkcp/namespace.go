package simkcp

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// grace is how long kcp waits before it deletes what is in a namespace.
	grace = 5 * time.Second
	// estimate is how long kcp waits before it looks again at objects of a namespace that finalizers hold.
	estimate = 8 * time.Second
)

// namespace makes a namespace.
func (w *World) namespace(cluster, name string) {
	o := parse(fmt.Appendf(nil, `{"kind":"Namespace","metadata":{"name":%q}}`, name))
	readyNamespace(o)
	t, p := w.tables["/namespaces"], place{cluster, "", name}
	w.identify(t, p, o)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, refusal := w.store(t, p, o); refusal != nil {
		panic(refusal)
	}
}

// readyNamespace gives a new namespace the fields that a server gives it.
func readyNamespace(o *unstructured.Unstructured) {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = o.GetName()
	o.SetLabels(labels)
	o.Object["spec"] = map[string]any{"finalizers": []any{"kubernetes"}}
	o.Object["status"] = map[string]any{"phase": "Active"}
}

// DeleteNamespace deletes a namespace with all its objects, waits, and makes it again. step is the pause between two
// objects.
func (w *World) DeleteNamespace(cluster, namespace string, step time.Duration) {
	p := place{cluster, "", namespace}
	w.mu.Lock()
	marked, _ := w.take(w.tables["/namespaces"], p)
	w.mu.Unlock()
	if marked != nil && w.terminate(w.ctx, p, step) {
		w.namespace(cluster, namespace)
	}
}

// DeleteWorkspace deletes a workspace with its bindings and namespaces, and waits. step is the pause between two
// objects. It returns true when the workspace is gone, and false after ten minutes.
func (w *World) DeleteWorkspace(cluster string, step time.Duration) bool {
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		none := true
		for _, name := range []string{kcpGroup + "/apibindings", "/namespaces"} {
			t := w.tables[name]
			w.mu.Lock()
			objects := t.list(scope{cluster: cluster})
			w.mu.Unlock()
			for _, b := range objects {
				none = false
				w.end(t, place{cluster, "", parse(b).GetName()}, step)
			}
		}
		if none {
			w.forget(cluster)
			return true
		}
		pause(ctx, recheck)
	}
	return false
}

// forget removes the paths of a workspace that is gone.
func (w *World) forget(cluster string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, of := range w.paths {
		if of == cluster {
			delete(w.paths, path)
		}
	}
}

// end starts the deletion of an APIBinding or a namespace, unless that has begun.
func (w *World) end(t *table, p place, step time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := t.objects[p]
	if !ok || parse(b).GetDeletionTimestamp() != nil {
		return
	}
	w.take(t, p)
	w.ended(t, p, step)
}

// ended starts the work of kcp after the DELETE of an APIBinding or a namespace.
func (w *World) ended(t *table, p place, step time.Duration) {
	switch t.plural {
	case "apibindings":
		w.start(func(ctx context.Context) { w.leave(ctx, p, step) })
	case "namespaces":
		w.start(func(ctx context.Context) { w.terminate(ctx, p, step) })
	}
}

// terminate does the work of kcp for a namespace that is being deleted, until it is gone or ctx ends.
func (w *World) terminate(ctx context.Context, p place, step time.Duration) bool {
	t := w.tables["/namespaces"]
	in := scope{cluster: p.cluster, namespace: p.name}
	for wait := grace; ; wait = estimate {
		pause(ctx, wait)
		if ctx.Err() != nil {
			return false
		}
		w.mu.Lock()
		bound := w.serving(p.cluster) != nil || p.cluster == Platform
		kinds := slices.Clone(owned)
		if w.revision%2 == 0 { // kcp takes them in the order of a map
			slices.Reverse(kinds)
		}
		w.mu.Unlock()
		if bound {
			w.clear(ctx, kinds, in, step)
			if w.holds(in) {
				continue
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if b, ok := t.objects[p]; ok {
			w.commit(t, p, deleted, parse(b))
		}
		return true
	}
}

// holds reports whether a namespace has objects.
func (w *World) holds(in scope) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, plural := range owned {
		if t := w.tables[ipamGroup+"/"+plural]; t.namespaced && len(t.list(in)) > 0 {
			return true
		}
	}
	return false
}

// markNamespace marks a namespace as being deleted.
func markNamespace(o *unstructured.Unstructured) {
	o.SetDeletionTimestamp(new(metav1.Now()))
	o.Object["status"] = map[string]any{"phase": "Terminating"}
}
