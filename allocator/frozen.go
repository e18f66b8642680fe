package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// FrozenError refuses a request because the pool's space gives nothing out until
// it is known to hold all that was ever given out of it; see Options.Frozen. Wait
// has the claim woken when that is so.
type FrozenError struct {
	Pool PoolID
	// Lost: the space is known to lack changes that were made to it. Otherwise
	// it was not looked at yet.
	Lost bool
}

func (e *FrozenError) Error() string {
	if e.Lost {
		return "the ledger has lost changes to the pool's space, and takes them from the published records first"
	}
	return "the pool's space was not compared with the published records yet"
}

// frost is whether a pool keeps its space frozen.
type frost int

const (
	thawed frost = iota
	unseen       // nobody has said yet that nothing is lost
	lost
)

// frozen is the worst of what the pools of the space say. One that drains hands out
// nothing, and nobody may be left to speak for it.
func (s *space) frozen() frost {
	worst := thawed
	for _, p := range s.pools {
		if p.State == PoolOpen {
			worst = max(worst, p.frost)
		}
	}
	return worst
}

// Frozen reports whether a pool is yet to be thawed.
func (a *Allocator) Frozen(id PoolID) bool {
	p, ok := a.find(id)
	if !ok {
		return false
	}
	p.space.lock()
	defer p.space.unlock()
	return p.frost != thawed
}

// Behind reports whether the ledger, as it was found, has fewer changes of a pool's
// space than that, or does not know the pool. What was done here since, while
// the space was frozen, does not count.
func (a *Allocator) Behind(ctx context.Context, id PoolID, changes int64) (bool, error) {
	p, err := a.known(ctx, id)
	if errors.Is(err, ErrUnknownPool) {
		return true, nil
	}
	if err != nil || !a.short(id, changes) {
		return false, err
	}
	// Others may have gone on, and what they did is not known here yet.
	head, _, err := a.read(ctx, a.keys.head(p.Space))
	if err == nil && head != nil {
		err = a.await(ctx, head.ModRevision)
	}
	return err == nil && a.short(id, changes), err
}

// short is Behind as far as is known here.
func (a *Allocator) short(id PoolID, changes int64) bool {
	p, ok := a.find(id)
	if !ok {
		return true
	}
	p.space.lock()
	defer p.space.unlock()
	return p.space.head.count-p.space.strides < changes
}

// Freeze notes that the ledger lacks changes of a pool's space: nothing is given
// out of it until Thaw. A pool that is not known is as good as frozen.
func (a *Allocator) Freeze(id PoolID) {
	p, ok := a.find(id)
	if !ok {
		return
	}
	p.space.lock()
	defer p.space.unlock()
	p.frost = lost
}

// Thaw notes that the ledger has all that was given out of a pool. When that is so
// of all pools of the space, those who wait are served. The count of the space's
// changes goes on from the given one, if it is behind: copies of the ledger from
// before a loss then stay behind what was counted after it.
func (a *Allocator) Thaw(ctx context.Context, id PoolID, changes int64) error {
	p, err := a.known(ctx, id)
	if err == nil && a.short(id, changes) {
		err = a.submit(ctx, id, &leap{pool: p, to: changes})
	}
	if err != nil {
		return fmt.Errorf("thaw pool %s: %w", id, err)
	}
	if p, ok := a.find(id); ok {
		p.space.thaw(p)
	}
	return nil
}

func (s *space) thaw(p *pool) {
	s.lock()
	defer s.unlock()
	if p.frost == thawed {
		return
	}
	p.frost = thawed
	s.touch(p.ID)
	if s.frozen() != thawed {
		return
	}
	s.strides = 0
	for _, p := range s.pools {
		s.offer(p, p.CIDR)
	}
}

// leap is the op that moves the count of a space's changes on.
type leap struct {
	pool Pool
	to   int64
}

func (l *leap) cluster() ClusterName   { return l.pool.Cluster }
func (l *leap) claim() (ClaimID, bool) { return "", false }

func (l *leap) place(s *space) (share, error) {
	p := s.pool(l.pool.ID)
	if p == nil {
		return share{}, errGone
	}
	// A transaction that writes puts the head, too: the record is put as it is.
	return share{then: together(put(s.alloc.keys.pool(p.ID), encodePool(p.Pool))), count: l.to}, nil
}

func (l *leap) won(*space, int64, results) error { return nil }
func (l *leap) lost(*space, results) error       { return errAgain }

// Overlapping lists the blocks of a pool's space that have addresses in common with
// a prefix, those of every holder, whatever pool they are of.
func (a *Allocator) Overlapping(ctx context.Context, id PoolID, prefix netip.Prefix) ([]Block, error) {
	p, err := a.known(ctx, id)
	if err != nil {
		return nil, err
	}
	records, _, err := a.overlapping(ctx, p.Space, prefix)
	if err != nil {
		return nil, err
	}
	var blocks []Block
	for _, r := range records {
		for _, h := range r.holdings {
			blocks = append(blocks, r.block(h))
		}
	}
	return blocks, nil
}
