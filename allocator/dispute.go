package allocator

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Adopt records that a claim has exactly the prefix req.Exact, because a published record
// shows it. It restores a lost ledger, and so the pool may be draining or frozen, and the
// prefix excluded.
//
// If others have blocks there, Adopt does not decide which record is right: all of them become
// Disputed, until all but one are released. A claim that has a block keeps that one. Blocks that
// cool there are freed.
//
// state is Bound or Retained. The prefix has to lie in the pool.
func (rc Recovery) Adopt(ctx context.Context, req ledger.Request, state ledger.BlockState) (ledger.Block, error) {
	if err := checkRequest(req); err != nil {
		return ledger.Block{}, err
	}
	if !req.Exact.IsValid() || state != ledger.Bound && state != ledger.Retained {
		return ledger.Block{}, fmt.Errorf("%w: adopt an exact prefix, as bound or retained", ledger.ErrInvalid)
	}
	n := adoption{Allocator: rc.a, req: wanted{Request: req, adopts: true}}
	n.holding = n.req.holding(rc.a.engine.Hooks.Now())
	n.holding.State = state
	if state == ledger.Retained {
		n.holding.Until = store.Stamped(req.Until)
	}
	for {
		b, err := n.run(ctx)
		if !errors.Is(err, errBound) {
			return b, err
		}
		if b, found, err := rc.a.Lookup(ctx, req.Holder.Claim); err != nil || found {
			return b, err
		}
		if err := rc.a.Pools().endCooling(ctx, req.Holder.Claim); err != nil {
			return ledger.Block{}, err
		}
	}
}

// adoption is an Adopt.
type adoption struct {
	*Allocator
	req     wanted
	holding store.Holding
}

// run tries an ordinary bind first. If that is refused, it adds the claim to the blocks that are there.
func (n adoption) run(ctx context.Context) (ledger.Block, error) {
	done, err := n.engine.Submit(ctx, n.req.Pool, newBind(n.req, n.holding).op())
	if err == nil {
		n.engine.Metrics.CountBind(done.Attempts)
		return done.Block, nil
	}
	for attempts := pace(0); errors.Is(err, ledger.ErrInUse) || errors.Is(err, ledger.ErrPoolDraining) || errors.Is(err, engine.ErrStale); {
		var o *adopt
		if errors.Is(err, engine.ErrStale) {
			if err = attempts.wait(ctx); err != nil {
				break
			}
		}
		if _, err = n.Pools().endCooldowns(ctx, n.req.Pool, engine.EndCooldowns{Within: n.req.Exact}); err != nil {
			break
		}
		if o, err = n.op(ctx); errors.Is(err, engine.ErrStale) {
			continue
		}
		if err != nil {
			break
		}
		if err = o.flagInParts(ctx, n.Allocator); err != nil {
			continue
		}
		if err = n.stopBelow(ctx, o); err != nil {
			continue
		}
		done, err = n.engine.Submit(ctx, n.req.Pool, engine.Op{Lane: n.req.Holder.Tenant(), Alone: true, Plan: o.plan})
		if err == nil {
			n.engine.Metrics.Bound.Inc()
			return done.Block, nil
		}
	}
	return ledger.Block{}, err
}

// adopt adds a holder to the blocks at a prefix.
type adopt struct {
	request ledger.Request
	record  store.Record   // of the prefix, with the new holder
	others  []store.Record // that overlap it, and come into dispute by it
	near    neighbours     // all that overlap it, itself included
	parted  bool           // some of others were written before
	below   []ledger.Pool  // child pools that hold blocks there
	stopped []store.Change // those of them that this brings into dispute are stopped
}

// op prepares the adoption, from the blocks that the ledger has there now.
func (n adoption) op(ctx context.Context) (*adopt, error) {
	req := n.req.Request
	p, err := n.engine.Known(ctx, req.Pool)
	if err != nil {
		return nil, err
	}
	if !space.Contains(p.CIDR, req.Exact) {
		return nil, ledger.ErrOutOfRange
	}
	near, head, err := n.store.Overlapping(ctx, p.Space, req.Exact)
	if err == nil {
		err = n.engine.Watched.Await(ctx, head)
	}
	if err != nil {
		return nil, err
	}
	o := &adopt{request: req, near: neighbours{req.Exact, req.Pool, near, head}, record: store.Record{Space: p.Space, Prefix: req.Exact}}
	for _, r := range near {
		if space.CooledOf(r) != nil {
			return nil, engine.ErrStale // it began to cool meanwhile
		}
		o.below = append(o.below, n.Recovery().childrenIn(r)...)
		if r.Prefix == req.Exact {
			o.record = r
			continue
		}
		if !r.Disputed {
			r.Disputed = true
			o.others = append(o.others, r)
		}
	}
	o.record.Holdings = append(o.record.Holdings, n.holding)
	o.record.Disputed = len(near) > 0
	return o, nil
}

// flagInParts writes some of the others before, where they are too many for one transaction.
func (o *adopt) flagInParts(ctx context.Context, a *Allocator) (err error) {
	all := o.others
	o.near.head, o.others, err = a.Recovery().flagInParts(ctx, o.request.Pool, o.near.head, all)
	o.parted = len(o.others) < len(all)
	return err
}

func (o *adopt) plan(v space.View) (engine.Plan, error) {
	if v.Pool(o.request.Pool) == nil {
		return engine.Plan{}, engine.ErrGone
	}
	if o.parted && v.Head().Revision != o.near.head { // the records that were written in parts are not as they were read
		return engine.Plan{}, engine.ErrStale
	}
	same, err := o.near.same(v)
	if err != nil {
		return engine.Plan{}, err
	}
	claim, r := o.request.Holder.Claim, o.record
	changes := append(append(same, o.stopped...),
		v.Keys.PutClaim(claim, r.Prefix).At(0, errBound),
		v.Keys.PutBlock(r, r.Encode()).At(r.Revision, engine.ErrStale))
	changes = append(changes, (&bind{wanted: wanted{Request: o.request}}).stamped(v, 0)...)
	for _, r := range o.others {
		changes = append(changes, v.Keys.PutBlock(r, r.Encode()))
	}
	return engine.Plan{Changes: eachOnce(changes), Answer: engine.Answer{Block: r.Block(r.Holdings[len(r.Holdings)-1])}}, nil
}
