package allocator

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// An address space of a pool has the addresses of the pool once more. It begins in the transaction that puts its first
// block, and goes after its last block. The ledger has only its blocks, its workspace and its scope. In all else it
// follows its pool: exclusions, draining, a freeze and a closing. When the writer changes the pool, it updates the
// address spaces in memory.

// begin returns the changes that begin an address space with its first block, or refuses the address space. If the
// address space exists, or p is no address space, there are no changes. The changes compare the head of the pool's
// space, so that no operation on the pool is in the same transaction.
func begin(v space.View, p *space.Pool) ([]store.Change, error) {
	if !ledger.IsAddressSpace(p.ID) || v.Table().Lists(p) {
		return nil, nil
	}
	of, ok := v.Table().Find(p.Derived.Of)
	if !ok {
		return nil, ledger.ErrUnknownPool
	}
	var refusal error
	var head store.Head
	of.In.Read(func() { refusal, head = unspaced(of, *p.Derived), of.In.Head })
	return []store.Change{
		v.Keys.PutPool(p.Pool).At(0, engine.ErrMistaken),
		store.CheckKey(v.Keys.Space(of.Space).Head()).At(head.Revision, engine.ErrMistaken),
	}, refusal
}

// unspaced refuses an address space if its pool may have none. It also refuses if the workspace has address spaces of
// the pool for other roles: otherwise two claims for the same objects could get one address, each in another space.
func unspaced(of *space.Pool, made ledger.Derived) error {
	switch {
	case len(of.In.Damage) > 0:
		return of.In.Damage.Err()
	case of.Closed():
		return &ledger.ReleasingError{Pool: of.ID}
	case of.State != ledger.PoolOpen:
		return ledger.ErrPoolDraining
	// The second condition holds alone if another pool of the space has lost changes.
	case of.In.Room.Pools.Frozen() == space.Untrusted, of.FreezeReason() == space.Untrusted:
		return &ledger.FrozenError{Pool: of.ID}
	// An address that cools in the pool would be free in a new space.
	case !of.Frozen && (of.Held()+of.Cools.Own > 0 || of.In.Table.RolesDiffer(made)):
		return ledger.ErrMixed
	}
	for _, p := range of.In.Room.Pools {
		if p != of && p.CIDR.Overlaps(of.CIDR) {
			return &ledger.OverlapError{With: p.Pool}
		}
	}
	return nil
}

// Spaces lists the address spaces of a pool, as of memory. It costs the same however many pools are in them.
func (d Derived) Spaces(of ledger.PoolID) (all []ledger.Pool) {
	for _, id := range d.a.table.Parts(of) {
		if s, ok := d.a.Pools().Get(id); ok {
			all = append(all, s)
		}
	}
	return all
}

// leave ends an address space. It fails with ErrPoolInUse if there is a block, or if stays reports true.
func (a *Allocator) leave(ctx context.Context, id ledger.PoolID, stays func(*space.Pool) bool) error {
	plan := func(v space.View) (engine.Plan, error) { return leaving(v, id, stays) }
	_, err := a.engine.Submit(ctx, id, engine.Op{Alone: true, Plan: plan})
	return known(err)
}

// leaving plans the end of an address space. The head of the pool's space takes over the number of the address space's
// changes.
func leaving(v space.View, id ledger.PoolID, stays func(*space.Pool) bool) (engine.Plan, error) {
	p := v.Pool(id)
	if p == nil {
		return engine.Plan{}, engine.ErrGone
	}
	if !p.Empty() || stays(p) {
		return engine.Refuse(ledger.ErrPoolInUse)
	}
	of, ok := v.Table().Find(p.Derived.Of)
	if !ok {
		return engine.Plan{}, ledger.ErrUnknownPool
	}
	var head store.Head
	of.In.Read(func() { head = of.In.Head })
	if head.Damage != nil { // nobody knows the number
		return engine.Plan{}, head.Damage
	}
	return engine.Plan{Changes: []store.Change{
		v.Keys.RemovePool(p.Pool), v.Keys.RemoveHead(), v.Keys.Space(of.Space).PutHead(head.Count + v.Head().Count),
	}}, nil
}
