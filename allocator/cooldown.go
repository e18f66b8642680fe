package allocator

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// cooldown is when a block that is freed now may be given to anybody; zero: now. A
// reservation goes back to what it was: free, or cooling until its old time.
func (a *Allocator) cooldown(b Block) (time.Time, error) {
	now := a.engine.Hooks.Now()
	switch {
	case b.State == Reserved && b.Until.After(now):
		return b.Until, nil
	case b.State == Reserved, b.State == Disputed:
		return time.Time{}, nil
	}
	d, err := a.options.Cooldown(b)
	if err != nil || d <= 0 {
		return time.Time{}, err
	}
	return store.Stamped(now.Add(d)), nil
}

// endCooldownsIn ends the cooldown of what overlaps a prefix, for a published record that says
// that somebody has it. It reports whether there was any.
func (a *Allocator) endCooldownsIn(ctx context.Context, id PoolID, within netip.Prefix) (bool, error) {
	return engine.EndAll(engine.EndCooldowns{Within: within}, func(o engine.Op) error { return a.engine.Submit(ctx, id, o) })
}

// errCooling: nothing is held of the pool but blocks that cool.
var errCooling = errors.New("blocks of the pool are cooling")

// endPoolCooldowns frees the cooling blocks of a pool that holds no others. It closes the pool first,
// so that no bind takes them early. The record of a child keeps the end of the last cooldown in
// it: until then the child's own block cools in the parent.
func (a *Allocator) endPoolCooldowns(ctx context.Context, id PoolID, check func(Pool) error) error {
	p, err := a.known(ctx, id)
	if err != nil {
		return err
	}
	e := &edit{pool: p, idle: true, check: check, change: func(p *Pool) { p.State = PoolDraining }}
	if err := a.engine.Submit(ctx, id, e); err != nil {
		return err
	}
	_, err = engine.EndAll(engine.EndCooldowns{Of: id}, func(o engine.Op) error { return a.engine.Submit(ctx, id, o) })
	return err
}
