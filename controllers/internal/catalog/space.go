package catalog

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Space returns the space that a pool of a workspace is to be in: that of its address
// domain, or its own.
func Space(pool *ipamv1alpha1.IPPool, cluster ledger.ClusterName) ledger.SpaceID {
	if domain := pool.Spec.AddressDomain; domain != "" {
		return ledger.DomainSpace(cluster, domain)
	}
	return ledger.SpaceID(pool.UID)
}
