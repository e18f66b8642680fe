package packed

import (
	"maps"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// read are the annotations of claims, records and pools that controllers read. Those that are not here are not cached.
var read = map[string]bool{
	clusterAnnotation: true, decode.Mark: true,
	ipamv1alpha1.AnnotationAllowSweep: true, ipamv1alpha1.AnnotationUsage: true, ipamv1alpha1.AnnotationRetainedFrom: true,
	clusterv1.PausedAnnotation: true, // of a pool, by the IPAM provider of Cluster API
}

// strip removes the metadata that no controller reads: tenants write as much as they like. No controller writes
// what it removes either, so a patch of an object that was read from a cache leaves that alone. Finalizers stay: who patches
// one of them sends all. So do the labels of pools, which selectors read.
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
	annotations := obj.GetAnnotations()
	for name := range annotations {
		if !read[name] {
			kept := maps.Clone(annotations)
			maps.DeleteFunc(kept, func(name, _ string) bool { return !read[name] })
			obj.SetAnnotations(kept)
			return
		}
	}
}
