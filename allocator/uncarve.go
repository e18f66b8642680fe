package allocator

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// uncarve is the removal of a child pool, and of its block in the parent.
type uncarve struct {
	retirement
	child ledger.Pool // as look has found it
	block int64       // revision of the block at the child's place; 0: there is none
	lacks bool        // that block is not the child's, and stays
	free  free        // frees the child's block
}

// look reads the child's block, and decides whether to free it, and for how long it cools.
func (r *uncarve) look(ctx context.Context) error {
	parent, _ := r.Pools().Get(r.child.Parent)
	record, _, err := r.store.RecordAt(ctx, parent.Space, r.child.CIDR)
	if err != nil {
		return err
	}
	r.block, r.lacks = record.Revision, !record.Of(ledger.ClaimID(r.child.ID))
	if r.lacks {
		return nil
	}
	block := record.Block()
	r.free = free{block: block, farewell: r.terms.farewell(block, ledger.CausePoolRetired)}
	return r.cool(block)
}

// cool lets the child's block cool in the parent, for the longer of two times: the parent's own cooldown, and the rest
// of the cooldowns inside the child.
func (r *uncarve) cool(block ledger.Block) error {
	until, err := r.terms.cooldown(block, ledger.CausePoolRetired)
	if err != nil {
		return fmt.Errorf("cooldown of %s: %w", block.Prefix, err)
	}
	now, inside := r.engine.Hooks.Now(), r.child.CoolsUntil
	if until = later(until, inside); until.After(now) {
		r.free.cool(until)
	}
	if inside.After(now) { // a child that is carved again there would give out the addresses that still cool
		r.free.forNobody()
	}
	return nil
}

// plan removes the child if it is empty. If the child has changed since look read it, plan fails with ErrOvertaken, and
// the caller starts again.
func (r *uncarve) plan(v space.View) (engine.Plan, error) {
	child, ok := v.Table().Find(r.child.ID)
	if !ok {
		return engine.Plan{}, engine.ErrOvertaken
	}
	var head int64
	var err error
	child.In.Read(func() {
		if head, err = child.In.Head.Revision, r.empty(v, child); err == nil && !r.same(child.Pool) {
			err = engine.ErrOvertaken
		}
	})
	if err != nil {
		return refusing(err)
	}
	keys := v.Keys.Space(r.child.Space)
	changes := append(r.parting(v), keys.RemovePool(r.child), keys.RemoveHead().At(head, engine.ErrMistaken))
	return engine.Plan{Changes: changes}, nil
}

// same reports whether the child is still the one that look has seen, with the same end of its cooldowns. Another child
// may have been carved with its ID.
func (r *uncarve) same(now ledger.Pool) bool {
	return now.RegisteredAt.Equal(r.child.RegisteredAt) && now.CoolsUntil.Equal(r.child.CoolsUntil) &&
		now.CIDR == r.child.CIDR && now.Parent == r.child.Parent
}

// parting returns the changes of the transaction in the parent's space.
func (r *uncarve) parting(v space.View) []store.Change {
	if r.lacks {
		block := store.CheckKey(v.Keys.Block(r.child.CIDR)).At(r.block, engine.ErrOvertaken)
		return []store.Change{block, v.Keys.RemoveClaim(ledger.ClaimID(r.child.ID))}
	}
	return r.free.changes(v.Keys, engine.ErrOvertaken)
}
