package allocator

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// newUncarve plans to remove a child as it is now. The child's record and its head
// must belong together. A child that was retired and carved again has another head: with the
// wrong one, or none, the transaction could free a later block at the child's old place.
func newUncarve(p *space.Pool, check func(ledger.Pool) error) (*uncarve, error) {
	s := p.In
	s.Lock()
	defer s.Unlock()
	if s.Gone || s.Pool(p.ID) != p || s.Head.Revision == 0 {
		return nil, engine.ErrOvertaken
	}
	if err := s.Damage.Err(); err != nil { // what cannot be read may be a block
		return nil, err
	}
	if check != nil {
		if err := check(p.Pool); err != nil {
			return nil, err
		}
	}
	switch {
	case p.Used():
	case p.Spaces > 0:
		return nil, errSpaces
	case p.Cools.Own > 0:
		return nil, errCooling
	}
	return &uncarve{child: p.Pool, head: s.Head.Revision, changes: s.Head.Count, inUse: p.Used()}, nil
}

// uncarve is the removal of a child pool, and of its block in the parent; or of an address space, which has none.
type uncarve struct {
	child   ledger.Pool
	head    int64
	changes int64 // to its space
	inUse   bool
	block   int64 // revision of the block at the child's place; 0: there is none
	lacks   bool  // the child has no part in that block, which stays
	free    free  // frees the child's block
}

// parent is the space of the child's block.
func (r *uncarve) parent(a *Allocator) ledger.SpaceID {
	p, _ := a.Pools().Get(r.child.Parent)
	return p.Space
}

// look reads the child's block, and decides what becomes of it.
func (r *uncarve) look(ctx context.Context, a *Allocator) error {
	if r.child.Parent == "" {
		r.lacks = true
	}
	if r.inUse || r.lacks {
		return nil
	}
	record, _, err := a.store.RecordAt(ctx, r.parent(a), r.child.CIDR)
	if err != nil {
		return err
	}
	r.block, r.lacks = record.Revision, !record.Of(ledger.ClaimID(r.child.ID))
	if r.lacks {
		return nil
	}
	block := record.Block()
	parting := a.terms.farewell(block, ledger.CausePoolRetired)
	r.free = free{block: block, farewell: parting}
	return r.cool(a, block)
}

// cool makes the child's block cool in the parent, for the longer of the parent's own cooldown and what
// is left of the cooldowns inside the child.
func (r *uncarve) cool(a *Allocator, block ledger.Block) error {
	until, err := a.terms.cooldown(block)
	if err != nil {
		return fmt.Errorf("cooldown of %s: %w", block.Prefix, err)
	}
	now, inside := a.engine.Hooks.Now(), r.child.CoolsUntil
	if until = later(until, inside); until.After(now) {
		r.free.cool(until)
	}
	if inside.After(now) { // carved again there, the child would give the addresses that cool to others
		r.free.forNobody()
	}
	return nil
}

// plan compares the child's head. If the child has changed or gone, the caller takes a new look at it.
func (r *uncarve) plan(v space.View) (engine.Plan, error) {
	keys := v.Keys.Space(r.child.Space)
	if r.inUse {
		return engine.Refuse(ledger.ErrPoolInUse, store.CheckKey(keys.Head()).At(r.head, engine.ErrOvertaken))
	}
	parting, err := r.parting(v)
	return engine.Plan{Changes: append(parting,
		keys.RemovePool(r.child), keys.RemoveHead().At(r.head, engine.ErrOvertaken))}, err
}

// parting is what the transaction does in the parent.
func (r *uncarve) parting(v space.View) ([]store.Change, error) {
	switch {
	case r.child.Parent == "":
		return leavePool(v, r.child, r.changes)
	case r.lacks:
		block := store.CheckKey(v.Keys.Block(r.child.CIDR)).At(r.block, engine.ErrOvertaken)
		return []store.Change{block, v.Keys.RemoveClaim(ledger.ClaimID(r.child.ID))}, nil
	}
	return r.free.changes(v.Keys, engine.ErrOvertaken), nil
}
