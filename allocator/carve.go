package allocator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Carve makes a child pool. One transaction binds the child's block in the parent, which is req.Pool, and registers the
// child with the CIDR of that block. The child itself is the claim: req.Holder.Claim and child.ID are the same UID.
// Carve ignores the CIDR of child, and returns the child with its CIDR. If the child is carved already, Carve returns
// it as it is.
//
// Refusals are those of Bind, and ErrPoolMismatch if the UID has a block without a pool, or is the ID of a pool that
// was not carved.
func (ps Pools) Carve(ctx context.Context, req ledger.Request, child ledger.Pool) (ledger.Pool, error) {
	if err := errors.Join(checkRequest(req), ledger.CheckID("child pool", child.ID)); err != nil {
		return ledger.Pool{}, err
	}
	if req.Holder.Claim != ledger.ClaimID(child.ID) {
		return ledger.Pool{}, fmt.Errorf("%w: claim %s must be the child pool's own ID %s",
			ledger.ErrInvalid, req.Holder.Claim, child.ID)
	}
	child.Frozen = false
	c := carving{Allocator: ps.a, req: wanted{Request: req}, child: child}
	return c.run(ctx)
}

// carving is a Carve, a Readopt or a Provision.
type carving struct {
	*Allocator
	req      wanted
	child    ledger.Pool
	excluded func(cidr netip.Prefix) []netip.Prefix // the exclusions of the child; nil: none
	last     int64                                  // revision of the block that cools under the child's ID
}

func (c *carving) run(ctx context.Context) (ledger.Pool, error) {
	if of := c.child.Derived; ledger.IsDerived(c.child.ID) != (of != nil) || of != nil && of.ID() != c.child.ID {
		return ledger.Pool{}, fmt.Errorf("%w: pool %s does not have the ID that its class and scope give",
			ledger.ErrInvalid, c.child.ID)
	}
	c.child.Parent, c.child.State, c.child.Excluded = c.req.Pool, ledger.PoolOpen, nil
	c.child.Space = ledger.SpaceID(c.child.ID)
	c.Waits().leave(c.req.Request)
	now := c.engine.Hooks.Now()
	c.child.RegisteredAt = store.Stamped(now)
	o := engine.Op{
		Lane: c.req.Holder.Tenant(), Alone: true, Begins: c.req.Begins,
		Plan: carve(newBind(c.req, c.req.holding(now)), c.child, c.excluded),
	}
	for {
		done, err := c.submit(ctx, c.req.Request, o)
		if err == nil {
			c.Waits().Withdraw(c.req.Holder.Claim)
		}
		if !mayHave(err) {
			return done.Pool, err
		}
		pool, found, foundErr := c.before(ctx)
		if foundErr != nil || found {
			return pool, foundErr
		}
		if !errors.Is(err, errBound) {
			return ledger.Pool{}, err
		}
		if err := c.makeRoom(ctx); err != nil {
			return ledger.Pool{}, err
		}
	}
}

// makeRoom handles a former block of the child, which cools under the child's ID. For an adoption it frees that block.
// Otherwise it fails with ErrCools if the block has stood in the way before.
func (c *carving) makeRoom(ctx context.Context) error {
	id := c.req.Holder.Claim
	if c.req.adopts {
		return c.Pools().endCooling(ctx, id)
	}
	b, err := c.store.BlockOf(ctx, id)
	if err != nil {
		return err
	}
	return cools(b, &c.last)
}

// Readopt carves a child pool at exactly req.Exact, the prefix that the child's published status shows. It freezes the
// child, because the blocks of the child are still missing. As for Adopt, the parent may be closed or frozen, and the
// prefix may be excluded. Blocks that cool at the prefix are freed. ErrInUse: other blocks overlap the prefix. The
// parameter child has the exclusions. For a derived pool, it also has the class, the scope and the holder.
func (rc Recovery) Readopt(ctx context.Context, req ledger.Request, child ledger.Pool) (ledger.Pool, error) {
	if !req.Exact.IsValid() {
		return ledger.Pool{}, fmt.Errorf("%w: adopt an exact prefix", ledger.ErrInvalid)
	}
	child.Frozen = true
	excluded := func(netip.Prefix) []netip.Prefix { return child.Excluded }
	for {
		c := carving{Allocator: rc.a, req: wanted{Request: req, adopts: true}, child: child, excluded: excluded}
		p, err := c.run(ctx)
		if !errors.Is(err, ledger.ErrInUse) {
			return p, err
		}
		made, roomErr := rc.a.Pools().endCooldowns(ctx, req.Pool, engine.EndCooldowns{Within: req.Exact})
		if roomErr != nil || !made {
			return ledger.Pool{}, cmp.Or(roomErr, err)
		}
	}
}

// before returns the child if it was carved before. It reads the child's claim and pool at one revision: between two
// reads the child might be retired, and carved elsewhere.
func (c *carving) before(ctx context.Context) (ledger.Pool, bool, error) {
	id := c.child.ID
	gets := store.Ops(store.Get(c.keys.Claim(ledger.ClaimID(id))), store.Get(c.keys.Pool(id)))
	resp, err := c.store.Commit(ctx, nil, gets, nil)
	if err != nil {
		return ledger.Pool{}, false, err
	}
	claim, pool := store.Results(resp.Responses).Found(0), store.Results(resp.Responses).Found(1)
	if claim == nil {
		return ledger.Pool{}, false, nil
	}
	within, prefix, err := store.DecodeClaim(claim)
	if err == nil && pool == nil {
		err = c.poolless(ctx, ledger.Position{Space: within, Prefix: prefix}, resp.Header.Revision)
	}
	if err != nil || pool == nil {
		return ledger.Pool{}, false, err
	}
	p, err := store.DecodePool(string(pool.Key), id, pool.Value)
	if err == nil && p.CIDR != prefix {
		err = fmt.Errorf("%w: %s is a block of space %s, and the pool is %s", ledger.ErrPoolMismatch, prefix, within, p.CIDR)
	}
	if err != nil {
		return ledger.Pool{}, false, err
	}
	c.Waits().Withdraw(ledger.ClaimID(id))
	return p, true, nil
}

// poolless judges the block under the child's ID, when there was no pool at the revision. If the block cools, the child
// was retired, and poolless returns nil. It also returns nil if etcd has compacted the revision: then the caller tries
// again. Otherwise it returns ErrPoolMismatch.
func (c *carving) poolless(ctx context.Context, at ledger.Position, revision int64) error {
	r, ok, err := c.store.RecordAt(ctx, at.Space, at.Prefix, clientv3.WithRev(revision))
	switch {
	case store.Compacted(err) || ok && space.CooledOf(r) != nil:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: %s is a block of space %s, and no pool", ledger.ErrPoolMismatch, at.Prefix, at.Space)
}

// carve returns a plan that binds a block, and registers the child pool there.
func carve(
	b *bind, child ledger.Pool, excluded func(netip.Prefix) []netip.Prefix,
) func(space.View) (engine.Plan, error) {
	return func(v space.View) (engine.Plan, error) {
		p, err := b.plan(v)
		if err != nil || p.Refusal != nil {
			return p, err
		}
		child := child
		child.CIDR = p.Block.Prefix
		if excluded != nil {
			if child.Excluded, err = exclusions(child, excluded(child.CIDR)); err != nil {
				return engine.Plan{}, err
			}
		}
		p.Pool = child
		p.Changes = append(p.Changes,
			v.Keys.PutPool(child).At(0, fmt.Errorf("%w: as a pool that was not carved", ledger.ErrPoolMismatch)),
			v.Keys.Space(child.Space).PutHead(1).At(0, engine.ErrAgain))
		return p, nil
	}
}
