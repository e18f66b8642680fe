package resolve

import (
	"fmt"
	"net/netip"
	"slices"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// Overlap compares a root pool of a tenant with the pools of other workspaces that serve the tenant.
type Overlap struct {
	Pool *ipamv1alpha1.IPPool
	// CIDR is the CIDR of the pool.
	CIDR            netip.Prefix
	Owner, Platform directory.Workspace
}

// Foreign says from where else the owner of the pool may get addresses that the pool has, too; empty: from nowhere. It
// names only a pool of the owner, or a class by which the owner may claim, and never a pool of another workspace.
func (o Overlap) Foreign(catalog Catalog) string {
	if o.Owner.Cluster == o.Platform.Cluster || o.Pool.Spec.Carved() {
		return ""
	}
	const advice = "a claim may get an address here that another claim has from there: " +
		"use a CIDR of its own, or claim from one of the two alone"
	if carved := o.carved(catalog); carved != "" {
		return fmt.Sprintf("%s overlaps pool %q, which is carved from a pool of another workspace; %s",
			o.CIDR, carved, advice)
	}
	if class := o.class(catalog); class != "" {
		return fmt.Sprintf("%s overlaps addresses that the platform hands out by class %q; %s; "+
			"to divide a block of that class, create a pool with spec.parentClassName", o.CIDR, class, advice)
	}
	return ""
}

// carved returns the first pool of the owner's workspace that was carved from a pool of another workspace and overlaps
// the CIDR.
func (o Overlap) carved(catalog Catalog) string {
	for _, pool := range byName(catalog.Pools(o.Owner)) {
		if parent := pool.Parent(); parent != nil && parent.ProjectRef != nil && o.shares(pool) {
			return pool.Name
		}
	}
	return ""
}

// class returns the first class by which a pool of the platform may give some of the addresses to the owner. It reads
// only pools that name a class, because the platform also has the pools of all shared networks.
func (o Overlap) class(catalog Catalog) string {
	var names []string
	for _, class := range catalog.Classes() {
		if !(Query{From: o.Owner, Platform: o.Platform}).MayUse(class) {
			continue
		}
		if slices.ContainsFunc(catalog.Backing(o.Platform, class.Name), func(pool *ipamv1alpha1.IPPool) bool {
			return pool.Spec.Visibility == ipamv1alpha1.VisibilityPlatform && o.shares(pool) &&
				Admits(pool, o.Platform, o.Owner) && Backs(pool, class)
		}) {
			names = append(names, class.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// shares reports whether another pool has some of the addresses.
func (o Overlap) shares(other *ipamv1alpha1.IPPool) bool {
	cidr, err := netip.ParsePrefix(other.Status.AllocatedCIDR)
	return err == nil && cidr.Overlaps(o.CIDR)
}
