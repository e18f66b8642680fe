package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// An address space of a pool comes and goes by a transaction under the head of the pool's space, which also changes the
// number of them in the record of the pool. So the pool is not retired while it has any, and none comes with exclusions that
// were changed meanwhile. What changes the pool then changes those that are there, one by one. If the process stops
// between, the next Allocator that opens the ledger goes on.

// spacesAtOnce is how many address spaces of a pool are changed at once.
const spacesAtOnce = 64

// errSpaces: the pool has address spaces, which are retired before it.
var errSpaces = errors.New("the pool has address spaces")

// errThere: the address space is in the ledger, and not in memory yet.
var errThere = errors.New("the address space is registered")

// errOpen: addresses cool in an address space, and its pool does not drain. Made again there, the address space would give them to others.
var errOpen = errors.New("addresses cool in the address space of a pool that does not drain")

// newSpace plans the registration of an address space.
type newSpace ledger.Pool

func (s newSpace) plan(v space.View) (engine.Plan, error) {
	of := v.Pool(s.Derived.Of)
	if of == nil {
		return engine.Plan{}, engine.ErrGone
	}
	if err := unspaced(v, of, *s.Derived); err != nil {
		return engine.Refuse(err)
	}
	next, made, counts := of.Pool, ledger.Pool(s), int64(1)
	if of.Frozen {
		counts = 0 // as all changes to a frozen space
	}
	next.Spaces++
	made.Cluster, made.Name, made.CIDR, made.Excluded = of.Cluster, of.Name, of.CIDR, of.Excluded
	made.Frozen = of.Frozen
	return engine.Plan{Answer: engine.Answer{Pool: made}, Changes: []store.Change{
		v.Keys.PutPool(made).At(0, errThere),
		v.Keys.Space(made.Space).PutHead(counts).At(0, engine.ErrAgain),
		v.Keys.PutPool(next),
	}}, nil
}

// unspaced refuses the address space of a pool that may have none, or that has others of the workspace for other roles: two claims of the
// same objects would get one address, each in a space of its own.
func unspaced(v space.View, of *space.Pool, made ledger.Derived) error {
	switch {
	case of.Closed():
		return &ledger.ReleasingError{Pool: of.ID}
	case of.State != ledger.PoolOpen:
		return ledger.ErrPoolDraining
	case v.Pools().Frozen() == space.Untrusted, of.FreezeReason() == space.Untrusted: // beside one that has lost changes
		return &ledger.FrozenError{Pool: of.ID}
	case !of.Frozen && (of.Held()+of.Cools.Own > 0 || v.Table().RolesDiffer(made)): // an address that cools is free in a new space
		return ledger.ErrMixed
	}
	for _, p := range v.Pools() {
		if p != of && p.CIDR.Overlaps(of.CIDR) {
			return &ledger.OverlapError{With: p.Pool}
		}
	}
	return nil
}

// leavePool returns the changes to the pool that an address space leaves. The head of the pool's space takes over the changes
// to that of the address space, so that the sum of both grows.
func leavePool(v space.View, s ledger.Pool, changes int64) ([]store.Change, error) {
	of := v.Pool(s.Derived.Of)
	if of == nil {
		return nil, engine.ErrGone
	}
	next := of.Pool
	next.Spaces--
	if of.Parent != "" {
		next.CoolsUntil = later(next.CoolsUntil, s.CoolsUntil)
	}
	head := v.Keys.PutHead(v.Next(v.Head().Count + changes))
	return []store.Change{v.Keys.PutPool(next), head}, nil
}

// spaces is the Allocator's view of the address spaces of pools.
type spaces struct{ a *Allocator }

// of lists the address spaces of a pool, as of memory.
func (sp spaces) of(id ledger.PoolID) []ledger.PoolID {
	return slices.DeleteFunc(sp.a.table.Below(id), func(below ledger.PoolID) bool { return !ledger.IsAddressSpace(below) })
}

// Spaces lists the address spaces of a pool, as of memory. It costs the same however many pools are in them.
func (d Derived) Spaces(of ledger.PoolID) (all []ledger.Pool) {
	for _, id := range spaces(d).of(of) {
		if s, ok := d.a.Pools().Get(id); ok {
			all = append(all, s)
		}
	}
	return all
}

// retire retires the address spaces of a pool that are empty. ErrPoolInUse: one is not. Those that are in use come first, and refuse. Those
// with cooling blocks come last: they lose the ends of the cooldowns, and stay if the pool stays. errOpen: the pool has to drain before.
func (sp spaces) retire(ctx context.Context, id ledger.PoolID) error {
	turns := map[ledger.PoolID]int{}
	all := sp.of(id)
	for _, s := range all {
		sp.a.table.Visit(s, func(p *space.Pool) { turns[s] = turnOf(p) })
	}
	slices.SortFunc(all, func(a, b ledger.PoolID) int { return turns[a] - turns[b] })
	for _, s := range all {
		if err := sp.a.Pools().Retire(ctx, s); err != nil {
			return fmt.Errorf("address space %s: %w", s, err)
		}
	}
	return nil
}

// turnOf returns when an address space is retired, among those of its pool.
func turnOf(p *space.Pool) (turn int) {
	switch {
	case p.Used():
		return 0
	case p.Cools.Own == 0:
		return 1
	}
	return 2
}

// used refuses with ErrPoolInUse while an address space of a pool is in use. It fails if one cannot be read.
func (sp spaces) used(ctx context.Context, id ledger.PoolID) error {
	for _, s := range sp.of(id) {
		used := edit{idle: true, change: func(*ledger.Pool) {}}
		sp.a.table.Visit(s, func(p *space.Pool) {
			if p.Used() || len(p.In.Damage) > 0 {
				used.pool = p.Pool
			}
		})
		if used.pool.ID == "" {
			continue
		}
		if err := known(sp.a.Pools().edit(ctx, used)); err != nil {
			return fmt.Errorf("address space %s: %w", s, err)
		}
	}
	return nil
}

// Follow brings the address spaces of a pool in line with it. The Allocator that has changed the pool may have been stopped before.
func (d Derived) Follow(ctx context.Context, id ledger.PoolID) error {
	return spaces(d).follow(ctx, id)
}

// follow brings the address spaces of a pool in line with it.
func (sp spaces) follow(ctx context.Context, id ledger.PoolID) error { return sp.bring(ctx, id, false) }

// bring does what follow does. If idle is set, it refuses with ErrPoolInUse if an address space is in use.
func (sp spaces) bring(ctx context.Context, id ledger.PoolID, idle bool) error {
	end, err := sp.a.spaced.take(ctx, id) // two changes to the pool are followed one after the other
	if err != nil {
		return err
	}
	defer end()
	p, ok := sp.a.Pools().Get(id)
	if !ok || p.Spaces == 0 {
		return nil
	}
	lag := sp.lagging(p, idle)
	if idle && len(lag) < p.Spaces { // one cannot be read, and may be in use
		return cmp.Or(sp.a.table.Damaged().Err(), ledger.ErrPoolInUse)
	}
	var unread error
	for batch := range slices.Chunk(lag, spacesAtOnce) {
		for _, err := range editAll(batch, func(s ledger.Pool) error {
			return sp.a.Pools().edit(ctx, edit{pool: s, idle: idle, change: followed(p)})
		}) {
			switch {
			case ledger.Unreadable(err) && !idle: // it keeps no other one
				unread = err
			case err != nil && !errors.Is(err, ledger.ErrUnknownPool): // else it has gone
				return err
			}
		}
	}
	return unread
}

// editAll calls edit for all pools at once, and returns its errors.
func editAll(pools []ledger.Pool, edit func(ledger.Pool) error) []error {
	errs := make([]error, len(pools))
	var calls sync.WaitGroup
	for i, p := range pools {
		calls.Go(func() { errs[i] = edit(p) })
	}
	calls.Wait()
	return errs
}

// followed returns the change that brings an address space in line with its pool. One that drains stays so.
func followed(p ledger.Pool) func(*ledger.Pool) {
	return func(s *ledger.Pool) {
		s.Excluded, s.Frozen = p.Excluded, p.Frozen
		if p.State == ledger.PoolDraining {
			s.State = ledger.PoolDraining
		}
		next := *s.Derived
		next.Releasing = time.Time{}
		if p.Derived != nil {
			next.Releasing = p.Derived.Releasing
		}
		if !sameHold(next, *s.Derived) {
			s.Derived = &next
		}
	}
}

// followAll completes what an Allocator has begun that was stopped between a pool and its address spaces.
func (sp spaces) followAll() {
	for sp.a.engine.Ctx.Err() == nil && !sp.followEach() {
		select {
		case <-time.After(retryRetire):
		case <-sp.a.engine.Ctx.Done():
		}
	}
}

// followEach tries that for each pool once, and reports whether all is done.
func (sp spaces) followEach() (done bool) {
	done = true
	for p := range sp.a.Pools().All() {
		if p.Spaces == 0 || len(sp.lagging(p, false)) == 0 {
			continue
		}
		if err := sp.follow(sp.a.engine.Ctx, p.ID); err != nil && sp.a.engine.Ctx.Err() == nil {
			done = false
			sp.a.options.Logger.Warn("cannot bring the address spaces of a pool in line with it yet", "pool", p.ID, "error", err)
		}
	}
	return done
}

// lagging lists the address spaces of a pool that are not in line with it, or all of them, as of memory.
func (sp spaces) lagging(of ledger.Pool, all bool) (lag []ledger.Pool) {
	for _, id := range sp.of(of.ID) {
		s, ok := sp.a.Pools().Get(id)
		if !ok {
			continue
		}
		now := s
		if followed(of)(&now); all || differ(now, s) {
			lag = append(lag, s)
		}
	}
	return lag
}
