package catalog

import (
	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Space is the space that a pool of a workspace is to be in: that of its address
// domain, or its own.
func Space(pool *ipamv1alpha1.IPPool, cluster allocator.ClusterName) allocator.SpaceID {
	if domain := pool.Spec.AddressDomain; domain != "" {
		return allocator.DomainSpace(cluster, domain)
	}
	return allocator.SpaceID(pool.UID)
}
