package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Carve makes a child pool: its block is bound in the parent, which is
// req.Pool, and the child is registered with that CIDR, in one transaction. The
// child is the claim: req.Holder.Claim and child.ID are the same UID. The CIDR
// of child is ignored and returned filled in. A child that is carved already is
// returned as it is.
//
// Refusals are those of Bind, and ErrPoolMismatch if the UID has a block that
// is no pool.
func (a *Allocator) Carve(ctx context.Context, req Request, child Pool) (Pool, error) {
	if err := errors.Join(checkRequest(req), ledger.CheckID("child pool", child.ID)); err != nil {
		return Pool{}, err
	}
	if req.Holder.Claim != ClaimID(child.ID) {
		return Pool{}, fmt.Errorf("%w: claim %s must be the child pool's own ID %s", ErrInvalid, req.Holder.Claim, child.ID)
	}
	child.Frozen = false
	return a.carve(ctx, wanted{Request: req}, child)
}

func (a *Allocator) carve(ctx context.Context, req wanted, child Pool) (Pool, error) {
	child.Parent, child.State, child.Space, child.Excluded = req.Pool, PoolOpen, SpaceID(child.ID), nil
	var last int64
	for {
		if err := a.secure(ctx, req.Request); err != nil {
			return Pool{}, err
		}
		now := a.engine.Hooks.Now()
		child.RegisteredAt = store.Stamped(now)
		c := &carve{bind: newBind(req, req.holding(now)), child: child}
		err := a.engine.Submit(ctx, req.Pool, c)
		if err == nil {
			a.addChild(c.child, c.block.Revision)
			a.Withdraw(req.Holder.Claim)
			return c.child, nil
		}
		if errors.Is(err, space.ErrUnsecured) {
			continue
		}
		if !errors.Is(err, errBound) && !errors.Is(err, ErrUnknownPool) {
			return Pool{}, err
		}
		pool, found, foundErr := a.carved(ctx, child.ID)
		if foundErr != nil || found {
			return pool, foundErr
		}
		if c.uncertain {
			return Pool{}, errUncertain
		}
		if !errors.Is(err, errBound) {
			return Pool{}, err
		}
		if err := a.cooled(ctx, req, &last); err != nil {
			return Pool{}, err
		}
	}
}

// cooled makes way for a child whose former block cools under its ID.
func (a *Allocator) cooled(ctx context.Context, req wanted, last *int64) error {
	id := req.Holder.Claim
	if req.adopts {
		return a.endCooling(ctx, id)
	}
	b, err := a.latest(ctx, id)
	if err != nil {
		return err
	}
	return a.cools(ctx, b, last)
}

// Readopt carves a child pool at exactly req.Exact, because its published status
// says so, and freezes it: its own blocks are missing still. Like Adopt it asks for no
// permission, and what cools there makes way, but where others hold something it is refused with ErrInUse: a pool is
// never in dispute.
func (a *Allocator) Readopt(ctx context.Context, req Request, child Pool) (Pool, error) {
	if !req.Exact.IsValid() {
		return Pool{}, fmt.Errorf("%w: adopt an exact prefix", ErrInvalid)
	}
	child.Frozen = true
	for {
		p, err := a.carve(ctx, wanted{Request: req, adopts: true}, child)
		if !errors.Is(err, ErrInUse) {
			return p, err
		}
		if made, roomErr := a.endCooldownsIn(ctx, req.Pool, req.Exact); roomErr != nil || !made {
			return Pool{}, cmp.Or(roomErr, err)
		}
	}
}

// carved finds a child that was carved before. Its claim and its pool are read at
// once: between two reads it might be retired, and carved elsewhere.
func (a *Allocator) carved(ctx context.Context, id PoolID) (Pool, bool, error) {
	resp, err := a.store.Commit(ctx, nil, store.Ops(store.Get(a.keys.Claim(ClaimID(id))), store.Get(a.keys.Pool(id))), nil)
	if err != nil {
		return Pool{}, false, err
	}
	claim, pool := store.Results(resp.Responses).Found(0), store.Results(resp.Responses).Found(1)
	if claim == nil {
		return Pool{}, false, nil
	}
	within, prefix, err := store.DecodeClaim(claim)
	if err != nil {
		return Pool{}, false, err
	}
	if pool == nil {
		r, ok, err := a.store.RecordAt(ctx, within, prefix, clientv3.WithRev(resp.Header.Revision))
		if store.Compacted(err) || ok && space.CooledOf(r) != nil {
			return Pool{}, false, nil // it was retired, or has to be looked at again
		}
		if err != nil {
			return Pool{}, false, err
		}
		return Pool{}, false, fmt.Errorf("%w: %s is a block of space %s, and no pool", ErrPoolMismatch, prefix, within)
	}
	p, err := store.DecodePool(string(pool.Key), id, pool.Value)
	if err == nil && p.CIDR != prefix {
		err = fmt.Errorf("%w: %s is a block of space %s, and the pool is %s", ErrPoolMismatch, prefix, within, p.CIDR)
	}
	if err == nil {
		err = a.engine.Await(ctx, pool.ModRevision)
	}
	if err != nil {
		return Pool{}, false, err
	}
	a.Withdraw(ClaimID(id))
	return p, true, nil
}

// addChild brings a pool that was carved at the revision into memory, if the watch
// has not done so. If it has, the pool may be gone by now.
func (a *Allocator) addChild(child Pool, revision int64) {
	s := a.engine.Spaces.Enter(child.Space)
	defer s.Unlock()
	if a.engine.Watched.Get() >= revision {
		s.DropIfEmpty()
		return
	}
	if revision > s.Known {
		s.Known, s.Head = revision, store.Head{}.Next(revision, 1)
		s.PutPool(child)
	}
}

// carve is the op of a Carve: a bind, and the registration of what it got.
type carve struct {
	*bind
	child  Pool
	poolAt int // where the answers tell of a pool of the child's ID
}

func (c *carve) Claim() (ClaimID, bool) { return "", false }

func (c *carve) Plan(s *engine.Worker) (engine.Share, error) {
	sh, err := c.bind.Plan(s)
	if err != nil || c.refusal != nil {
		return sh, err
	}
	c.child.CIDR = c.prefix
	poolKey, headKey := s.Keys.Pool(c.child.ID), s.Keys.Space(c.child.Space).Head()
	sh.Ifs = append(sh.Ifs, store.Absent(poolKey), store.Absent(headKey))
	sh.Then = append(sh.Then, store.Put(poolKey, store.EncodePool(c.child)), store.Put(headKey, store.EncodeHead(1)))
	c.poolAt, sh.Els = len(sh.Els), append(sh.Els, store.Get(poolKey))
	return sh, nil
}

// Lost answers, too, if the child's ID is that of another pool.
func (c *carve) Lost(s *engine.Worker, why engine.Loss) error {
	err := c.bind.Lost(s, why)
	if errors.Is(err, engine.ErrAgain) && why.Got.Found(c.poolAt) != nil {
		return fmt.Errorf("%w: as a pool that was not carved", ErrPoolMismatch)
	}
	return err
}
