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

// Carve makes a child pool. One transaction binds the child's block in the
// parent, which is req.Pool, and registers the child with that CIDR. The child is
// the claim: req.Holder.Claim and child.ID are the same UID. Carve ignores the CIDR
// of child, and returns the child with its CIDR. A child that is carved already is
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
	c := carving{Allocator: a, req: wanted{Request: req}, child: child}
	return c.run(ctx)
}

// carving is a Carve or a Readopt.
type carving struct {
	*Allocator
	req   wanted
	child Pool
	last  int64 // revision of the block that cools under the child's ID
}

func (c *carving) run(ctx context.Context) (Pool, error) {
	c.child.Parent, c.child.State, c.child.Space, c.child.Excluded = c.req.Pool, PoolOpen, SpaceID(c.child.ID), nil
	for {
		if err := c.secure(ctx, c.req.Request); err != nil {
			return Pool{}, err
		}
		now := c.engine.Hooks.Now()
		c.child.RegisteredAt = store.Stamped(now)
		o := &carve{bind: newBind(c.req, c.req.holding(now)), child: c.child}
		err := c.engine.Submit(ctx, c.req.Pool, o)
		if err == nil {
			c.register(o.child, o.record.Revision)
			c.Withdraw(c.req.Holder.Claim)
			return o.child, nil
		}
		if errors.Is(err, space.ErrUnsecured) {
			continue
		}
		if !errors.Is(err, errBound) && !errors.Is(err, ErrUnknownPool) {
			return Pool{}, err
		}
		pool, found, foundErr := c.before(ctx)
		if foundErr != nil || found {
			return pool, foundErr
		}
		if o.uncertain {
			return Pool{}, errUncertain
		}
		if !errors.Is(err, errBound) {
			return Pool{}, err
		}
		if err := c.makeWay(ctx); err != nil {
			return Pool{}, err
		}
	}
}

// makeWay handles a former block of the child, which cools under the child's ID.
func (c *carving) makeWay(ctx context.Context) error {
	id := c.req.Holder.Claim
	if c.req.adopts {
		return c.endCooling(ctx, id)
	}
	b, err := c.latest(ctx, id)
	if err != nil {
		return err
	}
	return c.cools(ctx, b, &c.last)
}

// Readopt carves a child pool at exactly req.Exact, which its published status shows,
// and freezes it, because its own blocks are still missing. Like Adopt it may use a pool
// that is draining or frozen, and excluded prefixes, and it frees blocks that cool there.
// Unlike Adopt it makes no dispute: if others hold addresses there, it returns ErrInUse.
func (a *Allocator) Readopt(ctx context.Context, req Request, child Pool) (Pool, error) {
	if !req.Exact.IsValid() {
		return Pool{}, fmt.Errorf("%w: adopt an exact prefix", ErrInvalid)
	}
	child.Frozen = true
	for {
		c := carving{Allocator: a, req: wanted{Request: req, adopts: true}, child: child}
		p, err := c.run(ctx)
		if !errors.Is(err, ErrInUse) {
			return p, err
		}
		if made, roomErr := a.endCooldowns(ctx, req.Pool, engine.EndCooldowns{Within: req.Exact}); roomErr != nil || !made {
			return Pool{}, cmp.Or(roomErr, err)
		}
	}
}

// before finds the child if it was carved before. It reads the child's claim and pool at one
// revision: between two reads the child might be retired, and carved elsewhere.
func (c *carving) before(ctx context.Context) (Pool, bool, error) {
	id := c.child.ID
	resp, err := c.store.Commit(ctx, nil, store.Ops(store.Get(c.keys.Claim(ClaimID(id))), store.Get(c.keys.Pool(id))), nil)
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
		r, ok, err := c.store.RecordAt(ctx, within, prefix, clientv3.WithRev(resp.Header.Revision))
		if store.Compacted(err) || ok && space.CooledOf(r) != nil {
			return Pool{}, false, nil // it was retired, or the caller tries again
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
		err = c.engine.Await(ctx, pool.ModRevision)
	}
	if err != nil {
		return Pool{}, false, err
	}
	c.Withdraw(ClaimID(id))
	return p, true, nil
}

// register brings a pool that was carved at the revision into memory, unless the watch
// has. In that case the pool may be gone by now.
func (c *carving) register(child Pool, revision int64) {
	s := c.engine.Spaces.Enter(child.Space)
	if revision > s.Known && s.Head.Revision > 0 {
		// A former child of this ID, whose end the watch has not brought here yet. The transaction has found
		// no head, so nothing of it was left before that revision.
		s.Known = revision - 1
		s.Close()
		s.Unlock()
		c.register(child, revision)
		return
	}
	defer s.Unlock()
	if c.engine.Watched.Get() >= revision {
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
	child Pool
}

func (c *carve) Claim() (ClaimID, bool) { return "", false }

func (c *carve) Plan(s *engine.Worker) (engine.Share, error) {
	sh, err := c.bind.Plan(s)
	if err != nil || c.refusal != nil {
		return sh, err
	}
	c.child.CIDR, c.child.Disputed = c.prefix, s.Pool(c.request.Pool).Disputed
	poolKey, headKey := s.Keys.Pool(c.child.ID), s.Keys.Space(c.child.Space).Head()
	sh.Ifs = append(sh.Ifs, store.Absent(poolKey), store.Absent(headKey))
	sh.Then = append(sh.Then, store.Put(poolKey, store.EncodePool(c.child)), store.Put(headKey, store.EncodeHead(1)))
	sh.Look = append(sh.Look, poolKey)
	return sh, nil
}

// Lost is that of the bind, but refuses a child whose ID is that of another pool.
func (c *carve) Lost(s *engine.Worker, why engine.Loss) error {
	err := c.bind.Lost(s, why)
	if errors.Is(err, engine.ErrAgain) && why.Got.Of(s.Keys.Pool(c.child.ID)) != nil {
		return fmt.Errorf("%w: as a pool that was not carved", ErrPoolMismatch)
	}
	return err
}
