package allocator

import (
	"cmp"
	"context"
	"errors"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// errBound says that the claim has a block already. The claim's key in the ledger names it.
var errBound = errors.New("claim is bound")

// Bind gives a claim one block of a pool, and returns when the ledger has it.
//
// It is idempotent by claim: a claim that is bound already, in any pool, gets the block
// that it has, whatever the request asks for.
//
// A refusal is one of *ExhaustedError, *ExcludedError, *QuotaError, *FrozenError, *ReleasingError, *OverlapError,
// ErrInUse, ErrMixed, ErrOutOfRange, ErrPoolDraining, ErrUnknownPool and ErrInvalid. It is as certain as a block: it
// was true of the ledger at some moment during the call.
//
// If ctx ends while the block is being written, the block stays the claim's: Bind finds
// it, Release frees it.
func (a *Allocator) Bind(ctx context.Context, req ledger.Request) (ledger.Block, error) {
	ctx, span := engine.StartSpan(ctx, "allocate")
	block, err := a.bind(ctx, req)
	if err == nil {
		a.Waits().Withdraw(req.Holder.Claim)
	}
	engine.EndSpan(span, err)
	return block, err
}

// bind binds a block to the holder. If the holder has a block already, it returns that block.
func (a *Allocator) bind(ctx context.Context, req ledger.Request) (ledger.Block, error) {
	if err := checkRequest(req); err != nil {
		return ledger.Block{}, err
	}
	a.Waits().leave(req)
	// A bind of this claim was refused before, because the claim has a block. Another transaction for the claim would
	// fail, too, and delay the calls that share it.
	if a.table.Bound.Has(req.Holder.Claim) {
		if block, had, err := a.Lookup(ctx, req.Holder.Claim); err != nil || had {
			return block, err
		}
	}
	w := wanted{Request: req}
	b := newBind(w, w.holding(a.engine.Hooks.Now()))
	var last int64
	for {
		done, err := a.submit(ctx, req, b.op())
		if !mayHave(err) {
			return done.Block, err
		}
		if errors.Is(err, errBound) {
			a.table.Bound.Add(req.Holder.Claim)
		}
		block, lookupErr := a.store.BlockOf(ctx, req.Holder.Claim)
		switch {
		case lookupErr != nil:
			err = lookupErr
		case block.State != "" && block.State != ledger.Cooling:
			return block, nil
		case errors.Is(err, errBound):
			err = cools(block, &last)
		}
		if err != nil {
			return ledger.Block{}, err
		}
	}
}

// submit commits an op that binds the block of a request.
func (a *Allocator) submit(ctx context.Context, req ledger.Request, o engine.Op) (engine.Answer, error) {
	done, err := a.engine.Submit(ctx, req.Pool, o)
	if err == nil {
		a.engine.Metrics.CountBind(done.Attempts)
	} else if !mayHave(err) {
		a.Waits().makeWay(req, err)
	}
	return done, err
}

// mayHave reports whether the claim of a bind that ended with this error may have a block. Then the ledger has to be
// asked.
func mayHave(err error) bool {
	return errors.Is(err, errBound) || errors.Is(err, ledger.ErrUnknownPool)
}

// bind plans a Bind.
type bind struct {
	wanted
	asked store.Record // the block's record as the call asks for it, without the prefix, which the plan finds
	value string       // asked, encoded by the caller, to save the writer's time
}

func newBind(req wanted, h store.Holding) *bind {
	r := store.Record{Held: &h}
	return &bind{wanted: req, asked: r, value: r.Encode()}
}

func (b *bind) op() engine.Op {
	return engine.Op{Lane: b.Holder.Tenant(), Begins: b.Begins, Plan: b.plan}
}

// plan finds a prefix for the claim, or refuses the claim. The transaction confirms a refusal, too: the claim may be
// bound elsewhere.
func (b *bind) plan(v space.View) (engine.Plan, error) {
	p := v.Pool(b.Pool)
	if p == nil {
		return engine.Plan{}, engine.ErrGone
	}
	begins, refusal := begin(v, p)
	var found place
	if refusal == nil {
		found, refusal = b.find(v, p)
	}
	if refusal == nil && v.Table().Spaced(p.ID) && !b.adopts {
		refusal = ledger.ErrMixed
	}
	if refusal != nil {
		free := store.CheckKey(v.Keys.Claim(b.Holder.Claim)).At(0, errBound)
		return engine.Refuse(refusal, free)
	}
	if found.former != nil {
		return b.takeFormer(v, found), nil
	}
	r := b.asked
	r.Space, r.Prefix = v.Space(), found.prefix
	return engine.Plan{Answer: engine.Answer{Block: r.Block()}, Changes: append(begins,
		v.Keys.PutBlock(r, b.value).At(0, engine.ErrMistaken),
		v.Keys.PutClaim(b.Holder.Claim, found.prefix).At(0, errBound),
	)}, nil
}

// place is where a bind puts its block.
type place struct {
	prefix netip.Prefix
	former *space.Cooled // the cooling block there, which the claim gets back; nil: the prefix is free
}

// find finds a place for the block, or refuses the request.
func (b *bind) find(v space.View, p *space.Pool) (at place, refusal error) {
	r := b.Request
	if err := b.shut(v, p); err != nil {
		return at, err
	}
	if b.adopts {
		at.prefix, refusal = p.Vacant(r.Exact)
		return at, refusal
	}
	if err := p.Suits(r); err != nil {
		return at, err
	}
	if prefix, ok := p.FormerBlock(r); ok {
		return place{prefix: prefix, former: v.Cooled(prefix)}, nil
	}
	if broken := p.Over(r, v.Pending(r)); broken != nil {
		return at, broken
	}
	at.prefix, refusal = p.Room(r)
	return at, refusal
}

// shut refuses all requests while the pool allocates nothing. For an adoption the pool may be closed or frozen.
func (b *bind) shut(v space.View, p *space.Pool) error {
	reason := v.Pools().Frozen()
	switch {
	case p.Closed() && !b.adopts:
		return &ledger.ReleasingError{Pool: cmp.Or(p.Derived.Of, p.ID)}
	case p.State != ledger.PoolOpen:
		return ledger.ErrPoolDraining
	case reason != space.NotFrozen && !b.adopts:
		return &ledger.FrozenError{Pool: p.ID, Lost: reason == space.LostChanges}
	}
	return nil
}
