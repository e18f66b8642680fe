package allocator

import (
	"context"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// newUncarve makes the op that removes a child as it is now. The child's record and its head
// must belong together. A child that was retired and carved again has another head: with the
// wrong one, or none, the transaction could free a later block at the child's old place.
func newUncarve(p *space.Pool, check func(Pool) error) (*uncarve, error) {
	s := p.In
	s.Lock()
	defer s.Unlock()
	if s.Gone || s.Pool(p.ID) != p || s.Head.Revision == 0 {
		return nil, engine.ErrStale
	}
	if err := check(p.Pool); err != nil {
		return nil, err
	}
	if p.Held() == 0 && p.Cools.Own > 0 {
		return nil, errCooling
	}
	return &uncarve{child: p.Pool, head: s.Head.Revision, inUse: p.Held() > 0}, nil
}

// uncarve is the op that removes a child pool, and its block in the parent.
type uncarve struct {
	child    Pool
	head     int64
	inUse    bool
	block    int64      // revision of the block at the child's place; 0: there is none
	lacks    bool       // the child has no part in that block, which stays
	dispute  *undispute // takes the child out of a block in dispute; nil: it is in none
	free     free       // frees the child's block otherwise
	revision int64
}

// parent is the space of the child's block.
func (r *uncarve) parent(a *Allocator) SpaceID {
	p, _ := a.Pool(r.child.Parent)
	return p.Space
}

// look reads the child's block, and decides what becomes of it.
func (r *uncarve) look(ctx context.Context, a *Allocator) error {
	if r.inUse {
		return nil
	}
	record, _, err := a.store.RecordAt(ctx, r.parent(a), r.child.CIDR)
	if err != nil {
		return err
	}
	mine := record.Of(ClaimID(r.child.ID))
	r.block, r.lacks = record.Revision, mine < 0
	if r.lacks {
		return nil
	}
	block := record.Block(record.Holdings[mine])
	parting := a.terms.farewell(block, CausePoolRetired)
	if record.Disputed {
		r.dispute, err = a.undispute(ctx, block, record, parting)
		return err
	}
	r.free.farewell = parting
	return r.cool(a, block)
}

// cool makes the child's block cool in the parent, for the longer of the parent's own cooldown and what
// is left of the cooldowns inside the child.
func (r *uncarve) cool(a *Allocator, block Block) error {
	until, err := a.terms.cooldown(block)
	if err != nil {
		return fmt.Errorf("cooldown of %s: %w", block.Prefix, err)
	}
	if until = later(until, r.child.CoolsUntil); until.After(a.engine.Hooks.Now()) {
		r.free.cool(block, until)
	}
	return nil
}

func (r *uncarve) Cluster() ClusterName   { return r.child.Cluster }
func (r *uncarve) Claim() (ClaimID, bool) { return "", false }

func (r *uncarve) Plan(s *engine.Worker) (engine.Share, error) {
	keys := s.Keys.Space(r.child.Space)
	sh := engine.Share{Ifs: store.Cmps(store.At(keys.Head(), r.head)), Look: []string{keys.Head()}}
	if r.inUse {
		return sh, nil
	}
	sh.Then = store.Ops(store.Remove(keys.Pool(r.child.ID)), store.Remove(keys.Head()), store.Remove(keys.Turn()))
	part, err := r.parting(s)
	sh.Ifs, sh.Then, sh.Farewell = append(sh.Ifs, part.Ifs...), append(sh.Then, part.Then...), part.Farewell
	return sh, err
}

// parting is what the transaction does in the parent.
func (r *uncarve) parting(s *engine.Worker) (engine.Share, error) {
	if r.dispute != nil {
		return r.dispute.Plan(s)
	}
	block, claim := s.Keys.Block(r.child.CIDR), s.Keys.Claim(ClaimID(r.child.ID))
	sh := engine.Share{Ifs: store.Cmps(store.At(block, r.block)), Farewell: r.free.farewell.record}
	switch {
	case r.lacks:
		sh.Then = store.Ops(store.Remove(claim))
	case r.free.cooled != nil:
		sh.Then = store.Ops(store.Put(block, r.free.value))
	default:
		sh.Then = store.Ops(store.Remove(block), store.Remove(claim))
	}
	return sh, nil
}

func (r *uncarve) Won(s *engine.Worker, revision int64, got store.Results) error {
	if r.inUse {
		return ErrPoolInUse
	}
	r.revision = revision
	switch {
	case r.dispute != nil:
		return r.dispute.Won(s, revision, got)
	case r.lacks:
		return nil
	}
	r.free.block.Prefix = r.child.CIDR
	return r.free.Won(s, revision, nil)
}

// Lost asks for a new look at the child if it has changed or gone.
func (r *uncarve) Lost(_ *engine.Worker, why engine.Loss) error {
	if why.Kind == engine.Refuted {
		return engine.ErrStale
	}
	return engine.ErrAgain
}
