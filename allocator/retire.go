package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// retryRetire is the pause before a drained pool is tried again, after a fault.
const retryRetire = time.Second

// Exclude replaces the list of prefixes that a pool never hands out. Blocks that
// lie in them already stay. The list that is known here costs nothing.
func (a *Allocator) Exclude(ctx context.Context, id PoolID, list []netip.Prefix) error {
	p, err := a.known(ctx, id)
	if err != nil {
		return err
	}
	if list, err = p.exclusions(list); err != nil || slices.Equal(list, p.Excluded) {
		return err
	}
	return a.submit(ctx, id, &edit{pool: p, change: func(p *Pool) { p.Excluded = list }})
}

// Drain closes a pool for good: its blocks and its CIDR stay, nothing more is
// handed out, and it is retired by itself when its last block is gone. Draining
// twice is draining once. While the ledger is known to lack changes of the pool's space,
// Drain refuses with *FrozenError: a pool that seems to be empty may have lost its blocks.
func (a *Allocator) Drain(ctx context.Context, id PoolID) error {
	p, err := a.known(ctx, id)
	if err != nil {
		return err
	}
	return a.submit(ctx, id, &edit{pool: p, change: func(p *Pool) { p.State = PoolDraining }})
}

// known returns the record of a pool, if need be after asking the ledger.
func (a *Allocator) known(ctx context.Context, id PoolID) (Pool, error) {
	if err := checkID("pool", id); err != nil {
		return Pool{}, err
	}
	for {
		if _, err := a.locate(ctx, id); err != nil {
			return Pool{}, err
		}
		if p, ok := a.Pool(id); ok {
			return p, nil
		}
	}
}

// edit is the op of a change to a pool's record.
type edit struct {
	pool   Pool
	change func(*Pool)
	idle   bool // only if nobody has a block of the pool, else ErrPoolInUse
	next   Pool
	inUse  bool
	same   bool // there is nothing to change
}

func (e *edit) cluster() ClusterName   { return e.pool.Cluster }
func (e *edit) claim() (ClaimID, bool) { return "", false }

func (e *edit) place(s *space) (share, error) {
	p := s.pool(e.pool.ID)
	if p == nil {
		return share{}, errGone
	}
	if e.inUse = e.idle && p.held() > 0; e.inUse {
		return share{}, nil // the transaction confirms that it is so
	}
	e.next = p.Pool
	e.change(&e.next)
	if e.next.State == PoolDraining && p.Parent != "" {
		e.next.CoolsUntil = later(e.next.CoolsUntil, p.lastRelease())
	}
	if e.next.State != p.State && e.next.State == PoolDraining && s.frozen() == lost {
		return share{}, &FrozenError{Pool: p.ID, Lost: true}
	}
	if e.same = e.next.State == p.State && e.next.CoolsUntil.Equal(p.CoolsUntil) && e.next.Frozen == p.Frozen && slices.Equal(e.next.Excluded, p.Excluded); e.same {
		return share{}, nil // the transaction confirms that it is so
	}
	return share{then: together(put(s.alloc.keys.pool(p.ID), encodePool(e.next)))}, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (e *edit) won(s *space, revision int64, _ results) error {
	if e.inUse {
		return ErrPoolInUse
	}
	if p := s.pool(e.pool.ID); p != nil && !e.same && revision > s.known {
		s.update(p, e.next)
	}
	return nil
}

func (e *edit) lost(*space, loss) error { return errAgain }

// Retire removes an empty pool from the ledger. A child's block returns to its
// parent in the same transaction, and cools there for the longest of the parent's cooldown
// and what is left of those inside the child. Blocks that cool hold no pool up: they go with it. A pool that holds blocks is refused with
// ErrPoolInUse; one that is not registered is retired already.
func (a *Allocator) Retire(ctx context.Context, id PoolID) error {
	p, err := a.known(ctx, id)
	for err == nil {
		if p.Parent == "" {
			err = a.submit(ctx, id, &retire{pool: p})
		} else {
			err = a.retireChild(ctx, id)
		}
		if errors.Is(err, errCooling) {
			err = a.dissolve(ctx, id)
			continue
		}
		if !errors.Is(err, errMoved) {
			break
		}
		err = a.confirm(ctx, id)
	}
	if errors.Is(err, ErrUnknownPool) {
		return nil
	}
	return err
}

// retireDrained retires a pool whose last block is gone, and does not give up
// unless it is in use again.
func (a *Allocator) retireDrained(p *pool) {
	for {
		err := a.Retire(a.ctx, p.ID)
		if err == nil || errors.Is(err, ErrPoolInUse) || a.ctx.Err() != nil {
			break
		}
		a.options.Logger.Warn("cannot retire a drained pool yet", "pool", p.ID, "error", err)
		select {
		case <-time.After(retryRetire):
		case <-a.ctx.Done():
		}
	}
	p.space.lock()
	defer p.space.unlock()
	p.retiring = false
	p.space.touch(p.ID) // its last block may have gone meanwhile
}

// retire is the op that removes a root pool.
type retire struct {
	pool  Pool
	inUse bool
}

func (r *retire) cluster() ClusterName   { return r.pool.Cluster }
func (r *retire) claim() (ClaimID, bool) { return "", false }

func (r *retire) place(s *space) (share, error) {
	p := s.pool(r.pool.ID)
	if p == nil {
		return share{}, errGone
	}
	if r.inUse = p.held() > 0; r.inUse {
		return share{}, nil // the transaction confirms that it is so
	}
	if p.chill.own > 0 {
		return share{}, errCooling
	}
	keys := s.alloc.keys
	return share{
		then:  together(remove(keys.pool(p.ID)), put(keys.roots(p.Cluster), encodeFence())),
		drops: len(s.pools) == 1,
	}, nil
}

func (r *retire) won(s *space, revision int64, _ results) error {
	if r.inUse {
		return ErrPoolInUse
	}
	if p := s.pool(r.pool.ID); p != nil && revision > s.known {
		s.alloc.noteRetired([]PoolID{p.ID}, true)
		s.leave(p)
		s.alloc.strike(p)
	}
	s.alloc.fenced(r.pool.Cluster, revision)
	return nil
}

func (r *retire) lost(*space, loss) error { return errAgain }

// retireChild removes a child pool through the worker of its parent, provided
// that the child's head stays as it was when the child was seen to be empty.
func (a *Allocator) retireChild(ctx context.Context, id PoolID) error {
	p, ok := a.find(id)
	if !ok {
		return errMoved
	}
	o, err := p.uncarve()
	if err == nil {
		err = a.coolChild(ctx, o)
	}
	if err != nil {
		return err
	}
	if err := a.submit(ctx, o.child.Parent, o); err != nil {
		return err
	}
	s := p.space
	s.lock()
	defer s.unlock()
	if o.revision > s.known {
		s.known = o.revision
		a.noteRetired([]PoolID{id}, true)
		s.close()
	}
	return nil
}

// uncarve makes the op that removes a child as it is now. Its record and its head
// belong together: with the head of another life, or with none, the transaction
// would free what has been handed out anew at the child's old place.
func (p *pool) uncarve() (*uncarve, error) {
	s := p.space
	s.lock()
	defer s.unlock()
	if s.gone || s.pool(p.ID) != p || s.head.revision == 0 {
		return nil, errMoved
	}
	if p.held() == 0 && p.chill.own > 0 {
		return nil, errCooling
	}
	return &uncarve{child: p.Pool, head: s.head.revision, inUse: p.held() > 0}, nil
}

// coolChild has the child's block cool in the parent, for the longest of the parent's own
// cooldown and what is left of those inside the child.
func (a *Allocator) coolChild(ctx context.Context, o *uncarve) error {
	if o.inUse {
		return nil
	}
	r, ok, err := a.recordAt(ctx, o.parent(a), o.child.CIDR)
	if err != nil || !ok || r.disputed || r.of(ClaimID(o.child.ID)) != 0 {
		return err
	}
	block := r.block(r.holdings[0])
	until, err := a.cooldown(block)
	if err != nil {
		return fmt.Errorf("cooldown of %s: %w", block.Prefix, err)
	}
	if until = later(until, o.child.CoolsUntil); until.After(a.hooks.now()) {
		o.record = r.revision
		o.free.cool(block, until)
	}
	return nil
}

// uncarve is the op that removes a child pool.
type uncarve struct {
	child    Pool
	head     int64
	inUse    bool
	record   int64 // revision of the child's block, if it is to cool
	free     free
	revision int64
}

// parent is the space of the child's block.
func (r *uncarve) parent(a *Allocator) SpaceID {
	p, _ := a.Pool(r.child.Parent)
	return p.Space
}

func (r *uncarve) cluster() ClusterName   { return r.child.Cluster }
func (r *uncarve) claim() (ClaimID, bool) { return "", false }

func (r *uncarve) place(s *space) (share, error) {
	keys := s.alloc.keys
	child := keys.head(r.child.Space)
	sh := share{ifs: every(at(child, r.head)), els: together(get(child))}
	if !r.inUse {
		sh.then = together(
			remove(keys.pool(r.child.ID)), remove(child), remove(keys.turn(r.child.Space)), remove(keys.waiters(r.child.Space)),
		)
	}
	block := keys.block(s.id, r.child.CIDR)
	switch {
	case r.inUse:
	case r.free.cooled != nil:
		sh.ifs = append(sh.ifs, at(block, r.record))
		sh.then = append(sh.then, put(block, r.free.value))
	default:
		sh.then = append(sh.then, remove(block), remove(keys.claim(ClaimID(r.child.ID))))
	}
	return sh, nil
}

func (r *uncarve) won(s *space, revision int64, _ results) error {
	if r.inUse {
		return ErrPoolInUse
	}
	r.revision = revision
	r.free.block.Prefix = r.child.CIDR
	return r.free.won(s, revision, nil)
}

// lost has the child looked at again if it has changed or gone.
func (r *uncarve) lost(_ *space, why loss) error {
	if why.kind == refuted {
		return errMoved
	}
	return errAgain
}
