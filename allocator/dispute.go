package allocator

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"

	clientv3 "go.etcd.io/etcd/client/v3"
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
func (a *Allocator) Adopt(ctx context.Context, req Request, state BlockState) (Block, error) {
	if err := checkRequest(req); err != nil {
		return Block{}, err
	}
	if !req.Exact.IsValid() || state != Bound && state != Retained {
		return Block{}, fmt.Errorf("%w: adopt an exact prefix, as bound or retained", ErrInvalid)
	}
	n := adoption{Allocator: a, req: wanted{Request: req, adopts: true}}
	n.holding = n.req.holding(a.engine.Hooks.Now())
	n.holding.State = state
	if state == Retained {
		n.holding.Until = store.Stamped(req.Until)
	}
	for {
		b, err := n.run(ctx)
		if !errors.Is(err, errBound) {
			return b, err
		}
		if b, found, err := a.Lookup(ctx, req.Holder.Claim); err != nil || found {
			return b, err
		}
		if err := a.endCooling(ctx, req.Holder.Claim); err != nil {
			return Block{}, err
		}
	}
}

// adoption is an Adopt.
type adoption struct {
	*Allocator
	req     wanted
	holding store.Holding
}

// run tries an ordinary bind first. If that is refused, it adds the claim to what is there.
func (n adoption) run(ctx context.Context) (Block, error) {
	b := newBind(n.req, n.holding)
	err := n.engine.Submit(ctx, n.req.Pool, b)
	if err == nil {
		return b.bound(), nil
	}
	for attempts := pace(0); errors.Is(err, ErrInUse) || errors.Is(err, ErrPoolDraining) || errors.Is(err, engine.ErrStale); {
		var o *adopt
		if errors.Is(err, engine.ErrStale) {
			if err = attempts.wait(ctx); err != nil {
				break
			}
		}
		if _, err = n.endCooldowns(ctx, n.req.Pool, engine.EndCooldowns{Within: n.req.Exact}); err != nil {
			break
		}
		if o, err = n.op(ctx); errors.Is(err, engine.ErrStale) {
			continue
		}
		if err != nil {
			break
		}
		if err = o.flagInParts(ctx, n.engine); err != nil {
			continue
		}
		if err = n.stopBelow(ctx, o); err != nil {
			continue
		}
		if err = n.engine.Submit(ctx, n.req.Pool, o); err == nil {
			return o.block, nil
		}
	}
	return Block{}, err
}

// adopt is the op of an Adopt.
type adopt struct {
	request Request
	record  store.Record   // of the prefix, with the new holder
	others  []store.Record // that overlap it, and come into dispute by it
	near    neighbours     // all that overlap it, itself included
	parted  bool           // some of others were written before
	below   []Pool         // child pools that hold blocks there
	stopped []clientv3.Cmp // those of them that this brings into dispute are stopped
	shared  bool           // the prefix itself has another holder
	block   Block
}

// op makes the op, from the blocks that the ledger has there now.
func (n adoption) op(ctx context.Context) (*adopt, error) {
	req := n.req.Request
	p, err := n.engine.Known(ctx, req.Pool)
	if err != nil {
		return nil, err
	}
	if !space.Contains(p.CIDR, req.Exact) {
		return nil, ErrOutOfRange
	}
	near, head, err := n.store.Overlapping(ctx, p.Space, req.Exact)
	if err == nil {
		err = n.engine.Await(ctx, head)
	}
	if err != nil {
		return nil, err
	}
	o := &adopt{request: req, near: neighbours{req.Exact, req.Pool, near, head}, record: store.Record{Space: p.Space, Prefix: req.Exact}}
	for _, r := range near {
		if space.CooledOf(r) != nil {
			return nil, engine.ErrStale // it began to cool meanwhile
		}
		o.below = append(o.below, n.childrenIn(r)...)
		if r.Prefix == req.Exact {
			o.record, o.shared = r, true
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
func (o *adopt) flagInParts(ctx context.Context, eng *engine.Engine) (err error) {
	all := o.others
	o.near.head, o.others, err = flagInParts(ctx, eng, flag{pool: o.request.Pool, head: o.near.head, records: all})
	o.parted = len(o.others) < len(all)
	return err
}

func (o *adopt) Cluster() ClusterName   { return o.request.Holder.Cluster }
func (o *adopt) Claim() (ClaimID, bool) { return "", false }

func (o *adopt) Plan(s *engine.Worker) (engine.Share, error) {
	if s.Pool(o.request.Pool) == nil {
		return engine.Share{}, engine.ErrGone
	}
	if o.parted && s.Head.Revision != o.near.head { // what was written in parts is not as it was read
		return engine.Share{}, engine.ErrStale
	}
	same, err := o.near.same(s)
	if err != nil {
		return engine.Share{}, err
	}
	keys, claim := s.Keys, o.request.Holder.Claim
	sh := engine.Share{
		Ifs: append(append(same, store.Absent(keys.Claim(claim)), store.At(keys.Block(o.record.Prefix), o.record.Revision)), o.stopped...),
		Then: store.Ops(
			store.Put(keys.Block(o.record.Prefix), o.record.Encode()),
			store.Put(keys.Claim(claim), store.EncodeClaim(s.ID, o.record.Prefix)),
		),
		Look: []string{keys.Claim(claim)},
	}
	sh.Stamp = engine.StampOf(&s.Table.Quotas, o.request, 0)
	for _, r := range o.others {
		sh.Then = append(sh.Then, store.Put(keys.Block(r.Prefix), r.Encode()))
	}
	return sh, nil
}

func (o *adopt) Won(s *engine.Worker, revision int64, _ store.Results) error {
	if revision > s.Known && !o.shared {
		s.Add(o.record.Prefix)
	}
	s.Put(o.record.Prefix, o.record, revision)
	s.Engine.Metrics.Bound.Inc()
	o.record.Revision = revision
	o.block = o.record.Block(o.record.Holdings[len(o.record.Holdings)-1])
	return nil
}

func (o *adopt) Lost(_ *engine.Worker, why engine.Loss) error {
	if why.Got.Found(0) != nil {
		return errBound
	}
	if why.Kind == engine.Refuted { // a pool that was stopped goes on
		return engine.ErrStale
	}
	return engine.ErrAgain
}
