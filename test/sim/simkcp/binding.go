package simkcp

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owned are the resources that kcp deletes with their binding or namespace.
var owned = []string{"ipclaims", "ipallocations", "ippools"}

// Workspace makes a workspace with its namespaces, and binds the export unless it is the platform's.
func (w *World) Workspace(cluster, path string, namespaces ...string) {
	w.mu.Lock()
	w.paths[path] = cluster
	w.mu.Unlock()
	for _, namespace := range namespaces {
		w.must("/namespaces", cluster, fmt.Sprintf(`{"kind":"Namespace","metadata":{"name":%q}}`, namespace))
	}
	if cluster != Platform {
		w.Bind(cluster, path)
	}
}

// Bind makes an APIBinding that is ready.
func (w *World) Bind(cluster, path string) {
	w.must(kcpGroup+"/apibindings", cluster, fmt.Sprintf(`{"kind":"APIBinding","metadata":{"name":"ipam",
		"annotations":{"kcp.io/path":%q},"finalizers":["apis.kcp.io/apibinding-finalizer"]},
		"spec":{"reference":{"export":{"name":%q,"path":%q}}},
		"status":{"apiExportClusterName":%q,"phase":"Bound","conditions":%s}}`,
		path, ipamGroup, PlatformPath, Platform, conditions("Ready", "APIExportValid", "InitialBindingCompleted")))
}

// bound reports whether a workspace has a binding, and whether each is being deleted. mu is held.
func (w *World) bound(cluster string) (ok, leaving bool) {
	leaving = true
	for p, b := range w.tables[kcpGroup+"/apibindings"].objects {
		if p.cluster == cluster {
			ok = true
			leaving = leaving && parse(b).GetDeletionTimestamp() != nil
		}
	}
	return ok, ok && leaving
}

// served reports whether a request in a workspace finds the kind. mu is held.
func (w *World) served(t *table, in scope) bool {
	switch {
	case in.cluster == "":
		return true
	case in.cluster == Platform:
		return !in.virtual
	case t.group != ipamGroup && !in.virtual:
		return true
	}
	ok, _ := w.bound(in.cluster)
	return ok
}

// Unbind deletes the APIBinding of a workspace as kcp does: its objects go first, past admission, and finalizers hold
// it. step is the pause between two of them. It returns true when the binding is gone, and false after two minutes.
func (w *World) Unbind(cluster string, step time.Duration) bool {
	ctx := context.Background()
	t := w.tables[kcpGroup+"/apibindings"]
	p := place{cluster, "", "ipam"}
	w.mu.Lock()
	binding, _ := w.take(t, p)
	w.mu.Unlock()
	if binding == nil {
		return false
	}
	for range 120 {
		pause(ctx, step)
		w.empty(ctx, scope{cluster: cluster}, step)
		pause(ctx, 2*time.Millisecond) // kcp lists what is left right after it has deleted all
		if w.unfinalize(t, p) {
			return true
		}
		pause(ctx, time.Second)
	}
	return false
}

// unfinalize deletes a binding that is being deleted, if its workspace has no object left.
func (w *World) unfinalize(t *table, p place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, plural := range owned {
		if len(w.tables[ipamGroup+"/"+plural].list(scope{cluster: p.cluster})) > 0 {
			return false
		}
	}
	o := parse(t.objects[p])
	o.SetFinalizers(nil)
	w.commit(t, p, deleted, o)
	return true
}

// empty deletes the objects of a scope, and reports whether there were none.
func (w *World) empty(ctx context.Context, in scope, step time.Duration) bool {
	none := true
	for _, plural := range owned {
		t := w.tables[ipamGroup+"/"+plural]
		if in.namespace != "" && !t.namespaced {
			continue
		}
		w.mu.Lock()
		objects := t.list(in)
		w.mu.Unlock()
		for _, b := range objects {
			none = false
			o := parse(b)
			w.mu.Lock()
			w.take(t, place{in.cluster, o.GetNamespace(), o.GetName()})
			w.mu.Unlock()
			pause(ctx, step)
		}
	}
	return none
}

// DeleteNamespace deletes a namespace with all its objects, and makes it again.
func (w *World) DeleteNamespace(cluster, namespace string, step time.Duration) {
	ctx := context.Background()
	t := w.tables["/namespaces"]
	p := place{cluster, "", namespace}
	w.mu.Lock()
	b, ok := t.objects[p]
	if ok {
		o := parse(b)
		o.SetFinalizers([]string{"kubernetes"})
		o.SetDeletionTimestamp(new(metav1.Now()))
		w.commit(t, p, modified, o)
	}
	w.mu.Unlock()
	if !ok {
		return
	}
	for range 100 {
		if w.empty(ctx, scope{cluster: cluster, namespace: namespace}, step) {
			break
		}
		pause(ctx, 200*time.Millisecond)
	}
	w.mu.Lock()
	w.commit(t, p, deleted, parse(t.objects[p]))
	w.mu.Unlock()
	w.must("/namespaces", cluster, fmt.Sprintf(`{"kind":"Namespace","metadata":{"name":%q}}`, namespace))
}
