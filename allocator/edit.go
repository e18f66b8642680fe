package allocator

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Exclude replaces the list of prefixes from which a pool allocates nothing. Existing blocks in these prefixes stay. If
// the pool has this list already, Exclude writes nothing.
func (ps Pools) Exclude(ctx context.Context, id ledger.PoolID, list []netip.Prefix) error {
	p, err := ps.a.engine.Known(ctx, id)
	if err != nil {
		return err
	}
	if list, err = exclusions(p, list); err != nil {
		return err
	}
	if slices.Equal(list, p.Excluded) {
		return nil
	}
	return ps.edit(ctx, edit{pool: p, change: func(p *ledger.Pool) { p.Excluded = list }})
}

// Drain ends all allocation from a pool. The pool keeps its blocks and its CIDR, and is retired by itself when its last
// block is gone. A second Drain changes nothing. While the ledger is known to lack changes of the pool's space, Drain
// fails with *FrozenError: the ledger may lack blocks of a pool that seems to be empty.
func (ps Pools) Drain(ctx context.Context, id ledger.PoolID) error {
	p, err := ps.a.engine.Known(ctx, id)
	if err != nil {
		return err
	}
	return ps.edit(ctx, edit{pool: p, change: drain})
}

// edit is a change to a pool's record.
type edit struct {
	pool   ledger.Pool
	change func(*ledger.Pool)
	idle   bool                    // fail with ErrPoolInUse if a block has a holder, or a claim holds the pool afterwards
	check  func(ledger.Pool) error // may refuse the pool as the plan sees it; nil: it refuses none
}

func (ps Pools) edit(ctx context.Context, e edit) error {
	_, err := ps.a.engine.Submit(ctx, e.pool.ID, engine.Op{Lane: e.pool.Cluster, Alone: true, Plan: e.plan})
	return err
}

func (e edit) plan(v space.View) (engine.Plan, error) {
	p := v.Pool(e.pool.ID)
	if p == nil {
		return engine.Plan{}, engine.ErrGone
	}
	if ledger.IsAddressSpace(p.ID) {
		return engine.Plan{}, fmt.Errorf("%w: %s is an address space, which changes with its pool", ledger.ErrInvalid, p.ID)
	}
	if e.check != nil {
		if err := e.check(p.Pool); err != nil {
			return engine.Refuse(err)
		}
	}
	next := p.Pool
	e.change(&next)
	parts, damage := partsOf(v, p)
	switch {
	case e.idle && damage != nil:
		return engine.Plan{}, damage
	case e.idle && (p.Held() > 0 || parts.Held || next.Kept()):
		return engine.Refuse(ledger.ErrPoolInUse)
	}
	if next.State == ledger.PoolDraining && p.Parent != "" {
		next.CoolsUntil = later(next.CoolsUntil, later(p.Cools.Last(), parts.Last))
	}
	if next.State != p.State && next.State == ledger.PoolDraining && v.Pools().Frozen() == space.LostChanges {
		return engine.Plan{}, &ledger.FrozenError{Pool: p.ID, Lost: true}
	}
	var changes []store.Change
	switch {
	case differ(p.Pool, next):
		changes = append(changes, v.Keys.PutPool(next))
	case p.Closing != next.Closing:
		changes = append(changes, v.Keys.KeepPool(next))
	}
	return engine.Plan{Changes: changes, Answer: engine.Answer{Pool: next}}, nil
}

// differ reports whether two records of a pool differ in a field that an edit may change.
func differ(a, b ledger.Pool) bool {
	return a.State != b.State || !a.CoolsUntil.Equal(b.CoolsUntil) || a.Frozen != b.Frozen ||
		!slices.Equal(a.Excluded, b.Excluded) || a.Derived != b.Derived
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
