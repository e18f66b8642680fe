package catalog

import (
	"maps"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// IDOf returns the ID by which the ledger knows a pool of a workspace: its UID, or, if its spec says that the system
// has made it, that of the derived pool that the ledger has of this workspace, name, class and scope. ok is false if it
// has none: what such an object says is nobody's word. Labels say nothing.
func IDOf(pools Pools, pool *ipamv1alpha1.IPPool, owner ledger.ClusterName) (id ledger.PoolID, ok bool) {
	if pool.Spec.ClassRef == nil {
		return ledger.PoolID(pool.UID), true
	}
	for _, id := range DerivedIDs(pool, owner) {
		if known, ok := pools.Get(id); ok && known.Cluster == owner && known.Name == pool.Name {
			return id, true
		}
	}
	return "", false
}

// DerivedIDs lists the IDs that a pool of a workspace may have that says it was made by the system: that of the
// workspace's own pool or of that of a namespace in it, and that of the pool which all workspaces share. Any other pool
// has none.
func DerivedIDs(pool *ipamv1alpha1.IPPool, owner ledger.ClusterName) []ledger.PoolID {
	if pool.Spec.ClassRef == nil {
		return nil
	}
	scope, class := resolve.LedgerScope(pool.Spec.Scope), pool.Spec.ClassRef.Name
	ids := []ledger.PoolID{ledger.DerivedID(class, owner, scope), ledger.DerivedID(class, "", scope)}
	if tenant := tenantOf(pool, owner); tenant != owner {
		ids = append(ids, ledger.DerivedID(class, tenant, scope))
	}
	return ids
}

// tenantOf returns the tenant that the label of a derived pool names. It is a hint: the ledger decides.
func tenantOf(pool *ipamv1alpha1.IPPool, owner ledger.ClusterName) ledger.ClusterName {
	return owner.Tenant(pool.Labels[ipamv1alpha1.LabelProvisionedFor])
}

// Shows reports whether an object of a workspace is that of a derived pool.
func Shows(object *ipamv1alpha1.IPPool, owner ledger.ClusterName, pool ledger.Pool) bool {
	return object.Name == pool.Name && owner == pool.Cluster && slices.Contains(DerivedIDs(object, owner), pool.ID)
}

// Kin finds the pools below a pool that the system has made, each before the one above it.
type Kin interface {
	Below(id ledger.PoolID) []ledger.Pool
}

// Used counts the blocks of pools.
type Used interface {
	Capacity(id ledger.PoolID) (ledger.Capacity, bool)
}

// UniqueWithin returns the roles within whose objects the block of a derived pool is given once, sorted; nil: it is
// given once in the pool above.
func UniqueWithin(pools Pools, p ledger.Pool) []string {
	space, ok := pools.Get(p.Parent)
	if !ok || !ledger.IsAddressSpace(space.ID) {
		return nil
	}
	return slices.Sorted(maps.Keys(space.Derived.Scope))
}

// Idle reports whether nobody uses a pool that the system has made: it is open, no claim holds it, nobody has a block
// of it or of one of its address spaces, and none cools there. changes counts those of its space and of its address
// spaces.
func Idle(used Used, kin Kin, p ledger.Pool) (idle bool, changes int64) {
	capacity, ok := used.Capacity(p.ID)
	if !ok || keeps(capacity) || p.Derived == nil || p.Derived.Holder.Claim != "" || p.Closed() {
		return false, 0
	}
	changes = capacity.Changes
	for _, below := range kin.Below(p.ID) {
		inside, ok := used.Capacity(below.ID)
		if ok && keeps(inside) {
			return false, 0
		}
		if below.Derived.Of == p.ID {
			changes += inside.Changes
		}
	}
	return true, changes
}

// Uses reports what uses a pool.
type Uses interface {
	Used
	InUse(id ledger.PoolID) bool
}

// Unused reports whether nobody uses a pool that the system has made or one below it, and nothing cools there: it may
// go with those below it, also before these are idle for long enough to go by themselves.
func Unused(used Uses, kin Kin, p ledger.Pool) bool {
	if p.Derived == nil || p.Derived.Holder.Claim != "" || p.Closed() || used.InUse(p.ID) {
		return false
	}
	return !Cools(used, kin, p)
}

// Cools reports whether addresses cool in a pool or one below it: with the pool, the ledger would forget until when.
func Cools(used Used, kin Kin, p ledger.Pool) bool {
	return slices.ContainsFunc(append(kin.Below(p.ID), p), func(p ledger.Pool) bool {
		inside, ok := used.Capacity(p.ID)
		return !ok || !inside.NextRelease.IsZero()
	})
}

// keeps reports whether a pool has blocks, or some that cool: with the pool, the ledger would forget until when.
func keeps(c ledger.Capacity) bool { return c.Blocks > 0 || !c.NextRelease.IsZero() }

// ShownID returns the ID by which the ledger knew a pool of a workspace when its status was written: the word of the
// system, also if the ledger has lost the pool since. ok is false for a derived pool that has no status. A pool that
// all workspaces share is the platform's: the status of one in another workspace is nobody's word.
func ShownID(pool *ipamv1alpha1.IPPool, owner, platform ledger.ClusterName) (id ledger.PoolID, ok bool) {
	if pool.Spec.ClassRef == nil {
		return ledger.PoolID(pool.UID), true
	}
	scope, class := resolve.LedgerScope(pool.Spec.Scope), pool.Spec.ClassRef.Name
	for _, of := range []ledger.ClusterName{owner, "", tenantOf(pool, owner)} {
		id := ledger.DerivedID(class, of, scope)
		if (of != "" || owner == platform) && pool.Status.ScopeDigest == ledger.Digest(id) {
			return id, true
		}
	}
	return "", false
}

// Changes returns the count of changes to a pool's space as its status shows it. A derived pool may be retired and made
// again, with the same ID: it then counts more than it ever has before, so that a ledger that has the former pool is
// found to lack changes.
func Changes(p ledger.Pool, count int64) int64 {
	if !ledger.IsDerived(p.ID) {
		return count
	}
	return p.RegisteredAt.UnixMilli()<<20 + count
}

// Space returns the space that a pool of a workspace is to be in: that of its address
// domain, or its own.
func Space(pool *ipamv1alpha1.IPPool, cluster ledger.ClusterName) ledger.SpaceID {
	if domain := pool.Spec.AddressDomain; domain != "" {
		return ledger.DomainSpace(cluster, domain)
	}
	return ledger.SpaceID(pool.UID)
}
