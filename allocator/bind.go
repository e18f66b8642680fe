package allocator

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// errBound: the claim has a block already, which the ledger names.
var errBound = errors.New("claim is bound")

// errUncertain: etcd did not answer, and other writers have changed the space since. The claim may
// have been bound and released again, so that another attempt could bind it twice.
var errUncertain = fmt.Errorf("%w: the outcome is unknown, and others have written since; ask again", ErrUnavailable)

// Bind gives a claim one block of a pool, and returns when the ledger has it.
//
// It is idempotent by claim: a claim that is bound already, in any pool, gets the block
// that it has, whatever the request asks for.
//
// A refusal is one of *ExhaustedError, *ExcludedError, *QuotaError, *FrozenError, ErrInUse,
// ErrOutOfRange, ErrPoolDraining, ErrUnknownPool and ErrInvalid. It is as certain as a block:
// it was true of the ledger at some moment during the call. There is one exception: for the
// limit of a class, the usage in other spaces may be stale. After Wait, the claim is woken when
// the usage is seen to be less.
//
// If ctx ends while the block is being written, the block stays the claim's: Bind finds
// it, Release frees it.
func (a *Allocator) Bind(ctx context.Context, req Request) (Block, error) {
	ctx, span := engine.StartSpan(ctx, "allocate")
	block, err := a.bind(ctx, req)
	engine.EndSpan(span, err)
	return block, err
}

func (a *Allocator) bind(ctx context.Context, req Request) (Block, error) {
	block, _, err := a.bindOnce(ctx, wanted{Request: req})
	if err == nil {
		a.Withdraw(req.Holder.Claim)
	}
	return block, err
}

// bindOnce binds a block to the holder. If the holder has one already, it returns that, and had is
// true.
func (a *Allocator) bindOnce(ctx context.Context, req wanted) (block Block, had bool, err error) {
	if err := checkRequest(req.Request); err != nil {
		return Block{}, false, err
	}
	var last int64
	for {
		if err := a.secure(ctx, req.Request); err != nil {
			return Block{}, false, err
		}
		b := newBind(req, req.holding(a.engine.Hooks.Now()))
		err := a.engine.Submit(ctx, req.Pool, b)
		if err == nil {
			return b.bound(), false, nil
		}
		if errors.Is(err, space.ErrUnsecured) || errors.Is(err, errTwice) {
			continue
		}
		if !errors.Is(err, errBound) && !errors.Is(err, ErrUnknownPool) {
			return Block{}, false, err
		}
		block, lookupErr := a.latest(ctx, req.Holder.Claim)
		switch {
		case lookupErr != nil:
			return Block{}, false, lookupErr
		case block.State != "" && block.State != Cooling:
			return block, true, nil
		case b.uncertain:
			return Block{}, false, errUncertain
		case !errors.Is(err, errBound):
			return Block{}, false, err
		}
		if err := a.cools(ctx, block, &last); err != nil {
			return Block{}, false, err
		}
	}
}

// bind is the op of a Bind.
type bind struct {
	request   wanted
	asked     store.Holding // as of the call; each plan begins with it
	record    store.Record  // of the block that is bound, with the one holding
	value     string        // of the block, encoded by the caller and not by the worker
	prefix    netip.Prefix  // reserved for it
	former    *space.Cooled // the cooling block that it gets back; nil: none
	fence     int64         // revision of the fence of its class's limit; 0: it has none
	held      *space.Waiter // its place on the waiting list, which it has left
	refusal   error
	previews  bool // it is only looked for a prefix, and nothing changes
	losses    int  // attempts that failed
	uncertain bool // an attempt may have been committed, and undone by other writers since
}

func newBind(req wanted, h store.Holding) *bind {
	r := store.Record{Holdings: []store.Holding{h}}
	return &bind{request: req, asked: h, record: r, value: r.Encode()}
}

func (b *bind) Cluster() ClusterName   { return b.request.Holder.Cluster }
func (b *bind) Claim() (ClaimID, bool) { return b.request.Holder.Claim, true }
func (b *bind) Uncertain()             { b.uncertain = true }
func (b *bind) Refuses() bool          { return b.refusal != nil }

// Takes is the owner of a planned bind, and how many addresses it adds to the owner's accounts. A
// block that cools is on them already.
func (b *bind) Takes() (by space.Owner, n *big.Int) {
	by = space.OwnerOf(b.record.Holdings[0])
	if b.former != nil {
		return by, new(big.Int)
	}
	return by, cidr.Size(b.prefix)
}

// bound is the block, once it was won.
func (b *bind) bound() Block { return b.record.Block(b.record.Holdings[0]) }

// Plan finds a free prefix and reserves it. The transaction confirms a refusal,
// too: memory may lag behind the ledger, and the claim may be bound elsewhere.
func (b *bind) Plan(s *engine.Worker) (engine.Share, error) {
	keys, claim := s.Keys, b.request.Holder.Claim
	p := s.Pool(b.request.Pool)
	if p == nil {
		return engine.Share{}, engine.ErrGone
	}
	if b.refusal = b.choose(s, p); errors.Is(b.refusal, space.ErrUnsecured) {
		return engine.Share{}, space.ErrUnsecured
	}
	key := keys.Claim(claim)
	sh := engine.Share{Look: []string{key}}
	if b.fence > 0 {
		quota := keys.Quota(b.request.Class, b.request.Holder.Cluster)
		sh.Ifs, sh.Look = append(sh.Ifs, store.At(quota, b.fence)), append(sh.Look, quota)
	}
	if b.refusal != nil {
		sh.Then = store.Ops(store.Get(key))
		return sh, nil //nolint:nilerr // the refusal is the answer once the transaction confirms it
	}
	if b.former != nil {
		return b.takeFormer(s)
	}
	s.Room.Reserve(b.prefix)
	block := keys.Block(b.prefix)
	sh.Ifs, sh.Look = append(sh.Ifs, store.Absent(key), store.Absent(block)), append(sh.Look, block)
	sh.Then = store.Ops(
		store.Put(block, b.value),
		store.Put(key, store.EncodeClaim(s.ID, b.prefix)),
	)
	sh.Stamp = engine.StampOf(&s.Table.Quotas, b.request.Request, b.fence)
	return sh, nil
}

// choose dates the block and finds its prefix, or refuses the request. A refused date takes nothing.
func (b *bind) choose(s *engine.Worker, p *space.Pool) (err error) {
	b.prefix, b.former, b.held, b.fence = netip.Prefix{}, nil, nil, 0
	if b.uncertain {
		return errUncertain
	}
	if err := b.date(s); err != nil {
		return err
	}
	b.prefix, err = b.find(s, p)
	return err
}

// date dates the record as of the call. A reservation gets a time that no former one of its ID has had. Memory has
// the former one: a transaction planned before it came would lose the comparison of the head. Where that is not the
// time of the call, the record says since when its holder has the block, for the history.
func (b *bind) date(s *engine.Worker) error {
	h := b.asked
	if b.request.reserves {
		next, err := s.Table.Reservations.Next(h.Claim, h.BoundAt)
		if err != nil {
			return err
		}
		if !next.Equal(h.BoundAt) {
			h.BoundAt, h.Since = next, h.BoundAt
		}
	}
	if h != b.record.Holdings[0] { // an earlier plan was dated differently, or had a former block
		b.record.Holdings[0] = h
		b.value = b.record.Encode()
	}
	return nil
}

func (b *bind) Won(s *engine.Worker, revision int64, got store.Results) error {
	if b.refusal != nil {
		if got.Found(0) != nil {
			return errBound
		}
		b.makeWay(s)
		return b.refusal
	}
	if b.former != nil {
		s.Put(b.prefix, b.record, revision)
	} else {
		s.Committed(b.prefix, b.record, revision)
	}
	b.record.Space, b.record.Prefix, b.record.Revision = s.ID, b.prefix, revision
	s.Engine.Metrics.Bound.Inc()
	s.Engine.Metrics.Attempts.Observe(float64(b.losses + 1))
	return nil
}

// makeWay removes a claim that was refused for a quota from the waiting list. Room that is held for it
// is offered to the next claim.
func (b *bind) makeWay(s *engine.Worker) {
	p := s.Pool(b.request.Pool)
	if _, over := errors.AsType[*QuotaError](b.refusal); over && p != nil {
		s.Room.Withdraw(p, b.request.Holder.Claim)
	}
}

func (b *bind) Lost(s *engine.Worker, why engine.Loss) error {
	b.losses++
	if b.held != nil {
		s.Room.Rejoin(b.held)
		b.held = nil
	}
	switch {
	case b.former != nil:
		b.former.Taken = false
	case b.refusal == nil:
		s.Room.Unreserve(b.prefix)
	}
	switch {
	case why.Kind != engine.Refuted:
		return engine.ErrAgain
	case b.mistaken(s, why.Got):
		return s.Distrust(b.prefix)
	case why.Got.Of(s.Keys.Claim(b.request.Holder.Claim)) != nil:
		return errBound
	}
	if b.fence > 0 && why.Got.Of(s.Keys.Quota(b.request.Class, b.request.Holder.Cluster)) == nil {
		s.Table.Quotas.Lifted(space.ClassAccount(b.request.Request), b.fence)
	}
	return engine.ErrAgain
}

// mistaken reports whether memory was wrong about the prefix, by what a refuted transaction has found. The head
// was as memory has it. So a prefix that memory has as free has no block, and one that cools for a former
// holder has the key of that claim.
func (b *bind) mistaken(s *engine.Worker, got store.Results) bool {
	switch {
	case b.refusal != nil:
		return false
	case b.former != nil:
		return got.Of(s.Keys.Claim(b.former.Claim)) == nil
	}
	return got.Of(s.Keys.Block(b.prefix)) != nil
}

// find chooses a free prefix, or refuses the request.
func (b *bind) find(s *engine.Worker, p *space.Pool) (netip.Prefix, error) {
	r := b.request
	if p.State != PoolOpen {
		return netip.Prefix{}, ErrPoolDraining
	}
	if r.adopts {
		return p.Vacant(r.Exact)
	}
	if reason := p.In.Room.Pools.Frozen(); reason != space.NotFrozen {
		return netip.Prefix{}, &FrozenError{Pool: p.ID, Lost: reason == space.LostChanges, Disputed: reason == space.Disputed}
	}
	if err := p.Suits(r.Request); err != nil {
		return netip.Prefix{}, err
	}
	if prefix, ok := p.FormerBlock(r.Request); ok {
		b.former = p.In.Cooling.Blocks[prefix]
		return prefix, nil
	}
	fence, broken := p.Over(r.Request, s.Placing.Pledged(r.Request))
	if b.fence = fence; space.ClassLimited(r.Request) && fence == 0 {
		return netip.Prefix{}, space.ErrUnsecured
	}
	if broken != nil {
		return netip.Prefix{}, broken
	}
	if b.previews {
		if prefix, ok := p.HeldFor(r.Request); ok {
			return prefix, nil
		}
	} else {
		b.held = p.In.Room.Claim(p, r.Request)
	}
	if r.Exact.IsValid() {
		return p.Exact(r.Exact)
	}
	if b.held != nil {
		return b.held.Last, nil
	}
	prefix, ok := p.Index.Find(r.Length, r.Strategy)
	if ok {
		return prefix, nil
	}
	largest, ok := p.Index.Largest()
	if !ok {
		largest = -1
	}
	return netip.Prefix{}, &ExhaustedError{Pool: p.ID, Length: r.Length, Largest: largest, NextRelease: p.Cools.Next()}
}
