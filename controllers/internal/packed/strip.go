package packed

import (
	"maps"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// longest is how long an annotation may be that is cached, in bytes. The usage samples of a pool take 2,850.
const longest = 4 << 10

// read reports whether a controller reads an annotation of a kind. Any other is not cached.
func read(obj client.Object, annotation string) bool {
	switch annotation {
	case clusterAnnotation, decode.Mark:
		return true
	case ipamv1alpha1.AnnotationRetainedFrom:
		_, record := obj.(*ipamv1alpha1.IPAllocation)
		return record
	case ipamv1alpha1.AnnotationAllowSweep, ipamv1alpha1.AnnotationUsage, clusterv1.PausedAnnotation: // paused, by the IPAM provider of Cluster API
		_, pool := obj.(*ipamv1alpha1.IPPool)
		return pool
	}
	return false
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
	drops := func(name, value string) bool { return !read(obj, name) || len(value) > longest }
	for name, value := range annotations {
		if drops(name, value) {
			kept := maps.Clone(annotations)
			maps.DeleteFunc(kept, drops)
			obj.SetAnnotations(kept)
			return
		}
	}
}
