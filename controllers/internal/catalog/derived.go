package catalog

import (
	"maps"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// IDOf returns the ID by which the ledger knows a pool of a workspace. For an authored pool that is its UID. An object
// whose spec names a class in classRef says that it is a derived pool. Its ID is that of the ledger's derived pool with
// this workspace, name, class and scope. If the ledger has none, ok is false: any user may have written the object. Its
// labels prove nothing.
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

// DerivedIDs lists the IDs that a derived pool of a workspace may have: as the pool of the workspace, as the pool of a
// namespace in it, or as the pool that all workspaces share. A pool without spec.classRef is not derived, and has none
// of them.
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

// tenantOf returns the tenant that the label of a derived pool names. The label is only a hint: the ledger decides.
func tenantOf(pool *ipamv1alpha1.IPPool, owner ledger.ClusterName) ledger.ClusterName {
	return owner.Tenant(pool.Labels[ipamv1alpha1.LabelProvisionedFor])
}

// Shows reports whether an object of a workspace is the IPPool of a derived pool.
func Shows(object *ipamv1alpha1.IPPool, owner ledger.ClusterName, pool ledger.Pool) bool {
	return object.Name == pool.Name && owner == pool.Cluster && slices.Contains(DerivedIDs(object, owner), pool.ID)
}

// Kin finds the derived pools and the address spaces below a pool. It lists a pool before the pool above it.
type Kin interface {
	Below(id ledger.PoolID) []ledger.Pool
}

// Used counts the blocks of pools.
type Used interface {
	Capacity(id ledger.PoolID) (ledger.Capacity, bool)
}

// UniqueWithin returns the roles, sorted, of the scope within which the block of a derived pool is unique. nil: the
// block is unique in the parent.
func UniqueWithin(pools Pools, p ledger.Pool) []string {
	space, ok := pools.Get(p.Parent)
	if !ok || !ledger.IsAddressSpace(space.ID) {
		return nil
	}
	return slices.Sorted(maps.Keys(space.Derived.Scope))
}

// Idle reports whether nobody uses a pool that the system has made: the pool is open, no claim holds it, and neither
// the pool nor a pool below it has blocks, cooling ones included. changes counts the changes to the space of the pool
// and to the address spaces of the pool; it is 0 if the pool is not idle.
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

// Unused reports whether nobody uses a pool that the system has made, or a pool below it, and nothing cools in them.
// Such a pool may be retired with the pools below it, before they have been idle for long enough to be retired by
// themselves.
func Unused(used Uses, kin Kin, p ledger.Pool) bool {
	if p.Derived == nil || p.Derived.Holder.Claim != "" || p.Closed() || used.InUse(p.ID) {
		return false
	}
	return !Cools(used, kin, p)
}

// Cools reports whether addresses cool in a pool or in a pool below it. If such a pool is removed, the ledger forgets
// when these cooldowns end.
func Cools(used Used, kin Kin, p ledger.Pool) bool {
	return slices.ContainsFunc(append(kin.Below(p.ID), p), func(p ledger.Pool) bool {
		inside, ok := used.Capacity(p.ID)
		return !ok || !inside.NextRelease.IsZero()
	})
}

// keeps reports whether a pool has blocks, cooling ones included. If such a pool is removed, the ledger forgets when
// the cooldowns end.
func keeps(c ledger.Capacity) bool { return c.Blocks > 0 || !c.NextRelease.IsZero() }

// ShownID returns the ID by which the ledger knew a pool of a workspace when the pool's status was written, even if the
// ledger has lost the pool since. The status can be trusted, because only the system writes it. ok is false for a
// derived pool without a status. A pool that all workspaces share belongs to the platform. In another workspace, any
// user may have written such an object, and ok is false.
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

// Changes returns the count of changes that the status of a pool shows for the pool's space. A derived pool may be
// retired, and made again with the same ID. Then the status shows a higher count than ever before. So recovery finds
// that a ledger which still has the former pool lacks changes.
func Changes(p ledger.Pool, count int64) int64 {
	if !ledger.IsDerived(p.ID) {
		return count
	}
	return p.RegisteredAt.UnixMilli()<<20 + count
}

// Space returns the space in which a pool of a workspace belongs: the space of its address domain, or its own.
func Space(pool *ipamv1alpha1.IPPool, cluster ledger.ClusterName) ledger.SpaceID {
	if domain := pool.Spec.AddressDomain; domain != "" {
		return ledger.DomainSpace(cluster, domain)
	}
	return ledger.SpaceID(pool.UID)
}
