package packed

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// longest is the length, in bytes, up to which an annotation is cached. The usage samples of a pool take 2,850.
const longest = 4 << 10

// read reports whether a controller reads this annotation of objects of this kind. Other annotations are not cached.
func read(obj client.Object, annotation string) bool {
	switch annotation {
	case clusterAnnotation, decode.Mark:
		return true
	case ipamv1alpha1.AnnotationRetainedFrom:
		_, record := obj.(*ipamv1alpha1.IPAllocation)
		return record
	case ipamv1alpha1.AnnotationAllowSweep, ipamv1alpha1.AnnotationUsage,
		clusterv1.PausedAnnotation: // paused, by the IPAM provider of Cluster API
		_, pool := obj.(*ipamv1alpha1.IPPool)
		return pool
	}
	return false
}

// strip removes the metadata that no controller reads, because tenants write as much as they like. No controller writes
// that metadata either, so a patch of a cached object leaves it alone.
//
// Finalizers stay, because a patch of one finalizer sends all of them. The labels of pools stay, because selectors read
// them. But an object can have more labels or finalizers than a policy admits, if its CREATE was stored past the
// policy. Then only this API's labels stay. Of the finalizers, this API's come first, and one more stays than the
// policy admits: by that, package patch knows that there may be more, and leaves them alone.
func strip(obj client.Object) {
	obj.SetManagedFields(nil)
	switch obj.(type) {
	case *ipamv1alpha1.IPClaim, *ipamv1alpha1.IPAllocation:
		obj.SetLabels(nil)
	case *ipamv1alpha1.IPPool:
	default:
		return
	}
	obj.SetOwnerReferences(nil)
	if names := obj.GetFinalizers(); len(names) > ipamv1alpha1.MaxFinalizers {
		slices.SortStableFunc(names, func(a, b string) int { return foreign(a) - foreign(b) })
		obj.SetFinalizers(slices.Clone(names[:ipamv1alpha1.MaxFinalizers+1]))
	}
	if labels := obj.GetLabels(); len(labels) > ipamv1alpha1.MaxLabels {
		obj.SetLabels(some(labels, func(name, _ string) bool { return name == ipamv1alpha1.LabelSlice }))
	}
	annotations := obj.GetAnnotations()
	keeps := func(name, value string) bool { return read(obj, name) && len(value) <= longest }
	for name, value := range annotations {
		if !keeps(name, value) {
			obj.SetAnnotations(some(annotations, keeps))
			return
		}
	}
}

// foreign returns 0 for a finalizer of this API, and 1 for any other.
func foreign(finalizer string) int {
	switch finalizer {
	case ipamv1alpha1.FinalizerPool, ipamv1alpha1.FinalizerAddressClaim:
		return 0
	}
	return 1
}

// some returns a new map with the entries that are kept. A map from which entries are deleted would keep its size.
func some(many map[string]string, keeps func(name, value string) bool) map[string]string {
	few := map[string]string{}
	for name, value := range many {
		if keeps(name, value) {
			few[name] = value
		}
	}
	return few
}
