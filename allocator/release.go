package allocator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// Release frees the block of a claim. One transaction deletes the block and the claim's key, or
// with Options.Cooldown the block begins to cool. If the claim has no block, Release does
// nothing.
//
// It does not check that the claim is gone: the caller must have confirmed that.
func (a *Allocator) Release(ctx context.Context, id ClaimID) error {
	var last Block
	for {
		b, ok, err := a.Lookup(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			a.Withdraw(id)
			return nil
		}
		if err := a.ReleaseFor(ctx, b, CauseReleased); !errors.Is(err, ErrChanged) || b == last {
			return err
		}
		last = b
	}
}

// ReleaseFor frees a block if it is still as given: same holder, same Revision.
// Otherwise it returns ErrChanged, also if the block is gone. The history keeps the cause: for a
// reservation that is always CauseCreateFailed.
func (a *Allocator) ReleaseFor(ctx context.Context, b Block, cause Cause) error {
	var err error
	if b.State == Disputed {
		err = a.releaseDisputed(ctx, b, cause)
	} else {
		err = a.free(ctx, b, cause)
	}
	if err == nil {
		a.Withdraw(b.Holder.Claim)
	}
	return err
}

func (a *Allocator) free(ctx context.Context, b Block, cause Cause) error {
	f := &free{block: b, farewell: a.terms.farewell(b, cause)}
	until, err := a.terms.cooldown(b)
	if err != nil {
		return fmt.Errorf("cooldown of %s: %w", b.Prefix, err)
	}
	if !until.IsZero() {
		f.cool(b, until)
	}
	return a.engine.Change(ctx, b, f)
}

// SetPolicy records the reclaim policy of a claim's block. It writes nothing if the block
// has that policy already, or if the claim has no block.
func (a *Allocator) SetPolicy(ctx context.Context, id ClaimID, policy ReclaimPolicy) error {
	_, _, err := a.amend(ctx, id, func(h *store.Holding) { h.Policy = policy })
	return err
}

// amend changes the holding of a claim. ok is false if the claim has no block.
func (a *Allocator) amend(ctx context.Context, id ClaimID, edit func(*store.Holding)) (Block, bool, error) {
	var last int64
	for {
		r, ok, err := a.store.RecordOf(ctx, id)
		if err != nil || !ok {
			return Block{}, false, err
		}
		mine := r.Of(id)
		h := r.Holdings[mine]
		if h.State == Cooling {
			return Block{}, false, nil
		}
		edit(&h)
		if h == r.Holdings[mine] {
			return r.Block(h), true, nil
		}
		old := r.Block(r.Holdings[mine])
		r.Holdings[mine] = h
		m := &amend{old: old, next: r}
		err = a.engine.Change(ctx, old, m)
		if err == nil {
			return m.next.Block(h), true, nil
		}
		if !errors.Is(err, ErrChanged) || last == old.Revision {
			return Block{}, false, err
		}
		last = old.Revision
	}
}

// present returns ErrGone if the pool of a block is not in memory, and ErrChanged if the block is
// certainly not there.
func present(s *engine.Worker, b Block) error {
	p := s.Pool(b.Pool)
	if p == nil {
		return engine.ErrGone
	}
	if p.Lacks(b.Prefix) {
		return ErrChanged
	}
	return nil
}

// free is the op of a release.
type free struct {
	block     Block
	farewell  farewell
	cooled    *store.Record // the block as it cools; nil: it is free at once
	value     string        // of that, encoded by the caller and not by the worker
	uncertain bool          // an earlier attempt may have been committed
	gone      bool          // and it was, because the block is not there any more
}

func (f *free) Cluster() ClusterName   { return f.block.Holder.Cluster }
func (f *free) Claim() (ClaimID, bool) { return f.block.Holder.Claim, true }
func (f *free) Changes() netip.Prefix  { return f.block.Prefix }

// cool makes a block cool instead. The block keeps the key of its claim, but not that of a
// reservation, because a workspace may have only a few of those.
func (f *free) cool(b Block, until time.Time) {
	f.farewell = f.farewell.cooling(until)
	id := b.Holder.Claim
	if b.State == Reserved {
		id = ClaimID("cooling." + rand.Text())
	}
	f.cooled = &store.Record{Holdings: []store.Holding{{
		Pool: b.Pool, Claim: id, Cluster: b.Holder.Cluster, Namespace: b.Holder.Namespace, Name: b.Holder.Name,
		Class: b.Class, Policy: b.Policy, State: Cooling, Slice: b.Slice, BoundAt: b.BoundAt, Until: until,
		Since: f.farewell.tenure.Until,
	}}}
	f.value = f.cooled.Encode()
}

func (f *free) Plan(s *engine.Worker) (engine.Share, error) {
	err := present(s, f.block)
	if _, cools := s.Cooling.Blocks[f.block.Prefix]; cools {
		err = ErrChanged
	}
	if f.uncertain && errors.Is(err, ErrChanged) {
		f.gone = true
		return engine.Share{}, nil // the transaction confirms that it is so
	}
	if err != nil {
		return engine.Share{}, err
	}
	block, claim := s.Keys.Block(f.block.Prefix), s.Keys.Claim(f.block.Holder.Claim)
	sh := engine.Share{Ifs: store.Cmps(store.At(block, f.block.Revision)), Then: store.Ops(store.Remove(block), store.Remove(claim)), Look: []string{block}, Farewell: f.farewell.record}
	if f.cooled == nil {
		return sh, nil
	}
	sh.Then = store.Ops(store.Put(block, f.value))
	if id := f.cooled.Holdings[0].Claim; id != f.block.Holder.Claim {
		value := store.EncodeClaim(s.ID, f.block.Prefix)
		sh.Then = append(sh.Then, store.Remove(claim), store.Put(s.Keys.Claim(id), value))
	}
	return sh, nil
}

func (f *free) Won(s *engine.Worker, revision int64, _ store.Results) error {
	if f.gone {
		return nil
	}
	s.Engine.Metrics.Released.Inc()
	if f.cooled == nil {
		s.Removed(f.block.Prefix, revision)
		return nil
	}
	s.Put(f.block.Prefix, *f.cooled, revision)
	return nil
}

func (f *free) Lost(_ *engine.Worker, why engine.Loss) error {
	f.gone = false
	switch why.Kind {
	case engine.Unanswered:
		f.uncertain = true
		return engine.ErrAgain
	case engine.Overtaken:
		return engine.ErrAgain
	case engine.Refuted:
	}
	now := why.Got.Found(0)
	if f.uncertain && (now == nil || now.CreateRevision > f.block.Revision || f.cooled != nil && string(now.Value) == f.value) {
		return nil // others may have bound the prefix since
	}
	return ErrChanged
}

// amend is the op of a change to a block's record.
type amend struct {
	old  Block
	next store.Record
}

func (m *amend) Cluster() ClusterName   { return m.old.Holder.Cluster }
func (m *amend) Claim() (ClaimID, bool) { return m.old.Holder.Claim, true }
func (m *amend) Changes() netip.Prefix  { return m.old.Prefix }

func (m *amend) Plan(s *engine.Worker) (engine.Share, error) {
	if err := present(s, m.old); err != nil {
		return engine.Share{}, err
	}
	key := s.Keys.Block(m.old.Prefix)
	return engine.Share{
		Ifs:  store.Cmps(store.At(key, m.old.Revision)),
		Then: store.Ops(store.Put(key, m.next.Encode())),
		Look: []string{key},
	}, nil
}

func (m *amend) Won(_ *engine.Worker, revision int64, _ store.Results) error {
	m.next.Revision = revision
	return nil
}

func (m *amend) Lost(_ *engine.Worker, why engine.Loss) error {
	if why.Kind == engine.Refuted {
		return ErrChanged
	}
	return engine.ErrAgain
}
