package simkcp

import (
	"bytes"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// bindingFinalizer holds an APIBinding until kcp has deleted what it served.
const bindingFinalizer = "apis.kcp.io/apibinding-finalizer"

// owned are the resources that an APIBinding serves, in the order of the export. kcp deletes them in that order.
var owned = []string{"ipallocations", "ipclaims", "ippools"}

// Workspace makes a workspace with its namespaces, and binds the export in it unless it is the platform's.
func (w *World) Workspace(cluster, path string, namespaces ...string) {
	w.mu.Lock()
	w.paths[path] = cluster
	w.mu.Unlock()
	for _, namespace := range namespaces {
		w.namespace(cluster, namespace)
	}
	if cluster != Platform {
		w.Bind(cluster, path)
	}
}

// Bind makes an APIBinding that is ready.
func (w *World) Bind(cluster, path string) {
	w.must(kcpGroup+"/apibindings", cluster, fmt.Sprintf(`{"kind":"APIBinding","metadata":{"name":"ipam",
		"annotations":{"kcp.io/path":%q},"finalizers":[%q]},
		"spec":{"reference":{"export":{"name":%q,"path":%q}}},"status":%s}`,
		path, bindingFinalizer, ipamGroup, PlatformPath, w.boundStatus()))
}

// boundStatus returns the status of an APIBinding that serves its workspace.
func (w *World) boundStatus() string {
	resources, comma := "[", ""
	for _, plural := range owned {
		resources += fmt.Sprintf(`%s{"group":%q,"resource":%q,"storageVersions":["v1alpha1"],
			"schema":{"name":"v1.%s.%s","UID":%q,"identityHash":%q}}`, comma, ipamGroup, plural, plural, ipamGroup, plural, w.identity)
		comma = ","
	}
	return fmt.Sprintf(`{"apiExportClusterName":%q,"phase":"Bound","boundResources":%s],"conditions":%s}`,
		Platform, resources, conditions("Ready", "APIExportValid", "InitialBindingCompleted"))
}

// serving returns the APIBinding that serves a workspace; nil: none does. mu is held.
func (w *World) serving(cluster string) *unstructured.Unstructured {
	for p, b := range w.tables[kcpGroup+"/apibindings"].objects {
		if p.cluster != cluster {
			continue
		}
		if binding := w.binding(p, b); isBound(binding) {
			return binding
		}
	}
	return nil
}

// bound is an APIBinding as it was last parsed: most requests ask for one.
type bound struct {
	from    []byte
	binding *unstructured.Unstructured
}

// binding returns a stored APIBinding, which the caller does not change. mu is held.
func (w *World) binding(p place, b []byte) *unstructured.Unstructured {
	known := w.bindings[p]
	if !bytes.Equal(known.from, b) {
		known = bound{b, parse(b)}
		w.bindings[p] = known
	}
	return known.binding
}

// isBound reports whether an APIBinding serves its workspace.
func isBound(binding *unstructured.Unstructured) bool {
	resources, _, _ := unstructured.NestedSlice(binding.Object, "status", "boundResources")
	return len(resources) > 0
}

// served reports whether a request with a scope finds the kind of a table. mu is held.
func (w *World) served(t *table, in scope) bool {
	switch {
	case in.cluster == Platform:
		return !in.virtual
	case t.group != ipamGroup && (in.cluster == "" || !in.virtual):
		return true
	case in.cluster == "":
		return !in.virtual || w.consumed(in.shard)
	case in.virtual && w.shardOf(in.cluster) != in.shard:
		return false
	}
	return w.serving(in.cluster) != nil
}

// consumed reports whether a shard has a workspace that an APIBinding serves. mu is held.
func (w *World) consumed(shard string) bool {
	for p, b := range w.tables[kcpGroup+"/apibindings"].objects {
		if w.shardOf(p.cluster) == shard && isBound(w.binding(p, b)) {
			return true
		}
	}
	return false
}

// binds starts to bind an APIBinding that a user made, unless another APIBinding serves the workspace.
func (w *World) binds(p place) {
	w.start(func(ctx context.Context) {
		pause(ctx, w.Step)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bind(p)
	})
}

// bind binds an APIBinding, unless another APIBinding serves the workspace. mu is held.
func (w *World) bind(p place) {
	t := w.tables[kcpGroup+"/apibindings"]
	b, ok := t.objects[p]
	if !ok || w.serving(p.cluster) != nil {
		return
	}
	o := parse(b)
	if o.GetDeletionTimestamp() != nil {
		return
	}
	o.Object["status"] = parse([]byte(w.boundStatus())).Object
	w.commit(t, p, modified, o)
}
