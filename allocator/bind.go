package allocator

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// errBound: the claim has a block already. Which one, the ledger says.
var errBound = errors.New("claim is bound")

// errDoubt: etcd did not answer, and by now there is no telling whether the claim
// was bound and released again. To bind it once more could be once too often.
var errDoubt = fmt.Errorf("%w: the outcome is unknown, and others have written since; ask again", ErrUnavailable)

// Bind gives a claim one block of a pool and returns when the ledger has it.
//
// It is idempotent by claim: one that is bound already, in whatever pool, gets
// the block it has, whatever else was asked. A refusal is one of
// *ExhaustedError, *ExcludedError, *QuotaError, *FrozenError, ErrInUse, ErrOutOfRange,
// ErrPoolDraining, ErrUnknownPool, ErrInvalid; it is as certain as a block: it held in the ledger at some moment
// during the call. Of what a workspace holds by a class, as far as it lies in other
// spaces, some may have been freed unseen: then Wait has the claim woken when it is seen.
//
// When ctx ends while the block is being written, the block stays. It belongs to
// the claim: Bind finds it, Release frees it.
func (a *Allocator) Bind(ctx context.Context, req Request) (Block, error) {
	ctx, span := startSpan(ctx, "allocate")
	block, err := a.bind(ctx, req)
	endSpan(span, err)
	return block, err
}

func (a *Allocator) bind(ctx context.Context, req Request) (Block, error) {
	block, _, err := a.bindOnce(ctx, req)
	if err == nil {
		a.Withdraw(req.Holder.Claim)
	}
	return block, err
}

// bindOnce binds a block to the holder, unless it had one before: then it returns that.
func (a *Allocator) bindOnce(ctx context.Context, req Request) (block Block, had bool, err error) {
	if err := req.check(); err != nil {
		return Block{}, false, err
	}
	var last int64
	for {
		if err := a.secure(ctx, req); err != nil {
			return Block{}, false, err
		}
		b := newBind(req, req.holding(a.hooks.now()))
		err := a.submit(ctx, req.Pool, b)
		if err == nil {
			return b.block, false, nil
		}
		if errors.Is(err, errUnsecured) || errors.Is(err, errTwice) {
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
		case b.doubted:
			return Block{}, false, errDoubt
		case !errors.Is(err, errBound):
			return Block{}, false, err
		}
		if err := a.cools(ctx, block, &last); err != nil {
			return Block{}, false, err
		}
	}
}

// check refuses what no pool could meet.
func (r Request) check() error {
	if err := errors.Join(ledger.CheckID("pool", r.Pool), ledger.CheckID("claim", r.Holder.Claim), ledger.CheckID("cluster", r.Holder.Cluster)); err != nil {
		return err
	}
	if r.Length < 0 {
		return fmt.Errorf("%w: prefix length %d is negative", ErrInvalid, r.Length)
	}
	if r.Exact.IsValid() && r.Exact != r.Exact.Masked() {
		return fmt.Errorf("%w: %s has host bits; write %s", ErrInvalid, r.Exact, r.Exact.Masked())
	}
	return nil
}

// bind is the op of a Bind.
type bind struct {
	request Request
	holding store.Holding
	value   string       // of the block; the caller encodes it, not the worker
	prefix  netip.Prefix // reserved for it
	regains *cooled      // what cools there, and is given back
	fence   int64        // revision of its quota's fence, if it has a quota that was looked at
	served  *waiter      // the place in the waiting list that it gave up
	refusal error
	block   Block // what was bound
	losses  int   // attempts that came to nothing
	doubted bool  // an attempt may have gone through, and been undone by others since
}

func newBind(req Request, h store.Holding) *bind {
	return &bind{request: req, holding: h, value: store.Record{Holdings: []store.Holding{h}}.Encode()}
}

func (b *bind) cluster() ClusterName   { return b.request.Holder.Cluster }
func (b *bind) claim() (ClaimID, bool) { return b.request.Holder.Claim, true }
func (b *bind) doubt()                 { b.doubted = true }
func (b *bind) refuses() bool          { return b.refusal != nil }

// takes is whose account a placed bind is on, and how many addresses it takes: none, if they
// are on it already.
func (b *bind) takes() (by owner, n *big.Int) {
	if b.regains != nil {
		return ownerOf(b.holding), new(big.Int)
	}
	return ownerOf(b.holding), cidr.Size(b.prefix)
}

// place finds a free prefix and reserves it. A refusal goes into the
// transaction, too: what is known here may be behind the ledger, and the claim
// may be bound elsewhere.
func (b *bind) place(s *space) (share, error) {
	keys, claim := s.alloc.keys, b.request.Holder.Claim
	p := s.pool(b.request.Pool)
	if p == nil {
		return share{}, errGone
	}
	b.fence = 0
	if b.prefix, b.refusal = b.find(p); errors.Is(b.refusal, errUnsecured) {
		return share{}, errUnsecured
	}
	sh := share{els: store.Ops(store.Get(keys.Claim(claim)))}
	if b.fence > 0 {
		quota := keys.Quota(b.request.Class, b.request.Holder.Cluster)
		sh.ifs, sh.els = append(sh.ifs, store.At(quota, b.fence)), append(sh.els, store.Get(quota))
	}
	if b.refusal != nil {
		sh.then = store.Ops(store.Get(keys.Claim(claim)))
		return sh, nil //nolint:nilerr // the refusal is the answer once the transaction confirms it
	}
	if b.regains != nil {
		return b.regain(s)
	}
	s.reserve(b.prefix, nil)
	sh.ifs = append(sh.ifs, store.Absent(keys.Claim(claim)))
	sh.then = store.Ops(
		store.Put(keys.Block(s.id, b.prefix), b.value),
		store.Put(keys.Claim(claim), store.EncodeClaim(s.id, b.prefix)),
	)
	sh.stamp = s.alloc.stamp(b.request, b.fence > 0)
	return sh, nil
}

func (b *bind) won(s *space, revision int64, got store.Results) error {
	if b.refusal != nil {
		if got.Found(0) != nil {
			return errBound
		}
		s.passOver(b.request, b.refusal)
		return b.refusal
	}
	if b.regains != nil {
		s.regained(ownerOf(b.holding), b.prefix, revision)
	} else {
		s.bound(ownerOf(b.holding), b.prefix, revision)
	}
	b.block = store.Record{Space: s.id, Prefix: b.prefix, Revision: revision}.Block(b.holding)
	s.alloc.metrics.bound.Inc()
	s.alloc.metrics.attempts.Observe(float64(b.losses + 1))
	return nil
}

func (b *bind) lost(s *space, why loss) error {
	b.losses++
	if b.served != nil {
		s.rejoin(b.served)
		b.served = nil
	}
	switch {
	case b.regains != nil:
		s.mark(b.prefix, false)
	case b.refusal == nil:
		s.unreserve(b.prefix)
	}
	if why.got.Found(0) != nil {
		return errBound
	}
	if why.kind == refuted && b.fence > 0 && why.got.Found(1) == nil {
		s.alloc.quotas.lifted(b.request.classAccount(), b.fence)
	}
	return errAgain
}

// find chooses a free prefix, or says why there is none.
func (b *bind) find(p *pool) (netip.Prefix, error) {
	r := b.request
	b.regains, b.served = nil, nil
	if b.doubted {
		return netip.Prefix{}, errDoubt
	}
	if p.State != PoolOpen {
		return netip.Prefix{}, ErrPoolDraining
	}
	if r.adopts {
		return p.vacant(r.Exact)
	}
	if frost := p.space.frozen(); frost != thawed {
		return netip.Prefix{}, &FrozenError{Pool: p.ID, Lost: frost == lost}
	}
	if err := p.suits(r); err != nil {
		return netip.Prefix{}, err
	}
	if prefix, ok := p.regains(r); ok {
		c := p.space.cooling.blocks[prefix]
		b.regains = &c
		return prefix, nil
	}
	if r.reserves && p.space.othersWait() {
		return netip.Prefix{}, ErrOthersWait
	}
	fence, broken := p.over(r, p.space.placing.pledged(r))
	if b.fence = fence; r.limited() && fence == 0 {
		return netip.Prefix{}, errUnsecured
	}
	if broken != nil {
		return netip.Prefix{}, broken
	}
	b.served = p.space.serve(p, r)
	if r.Exact.IsValid() {
		return p.exact(r.Exact)
	}
	if b.served != nil {
		return b.served.last, nil
	}
	prefix, ok := p.index.Find(r.Length, r.Strategy)
	if ok {
		return prefix, nil
	}
	largest, ok := p.index.Largest()
	if !ok {
		largest = -1
	}
	return netip.Prefix{}, &ExhaustedError{Pool: p.ID, Length: r.Length, Largest: largest, NextRelease: p.nextRelease()}
}

// suits refuses what the pool could never give.
func (p *pool) suits(r Request) error {
	switch {
	case r.Exact.IsValid() && !contains(p.CIDR, r.Exact):
		return ErrOutOfRange
	case !r.Exact.IsValid() && r.Length > p.CIDR.Addr().BitLen():
		return fmt.Errorf("%w: no block of %s can be a /%d", ErrInvalid, p.CIDR, r.Length)
	case r.Exact.IsValid():
		return p.excludes(r.Exact)
	}
	return nil
}

// excludes refuses a prefix that overlaps an exclusion of the pool.
func (p *pool) excludes(prefix netip.Prefix) error {
	for _, excluded := range p.Excluded {
		if excluded.Overlaps(prefix) {
			return &ExcludedError{Pool: p.ID, Excluded: excluded}
		}
	}
	return nil
}

// vacant returns a prefix of the pool in which nobody has a block, excluded or not.
func (p *pool) vacant(prefix netip.Prefix) (netip.Prefix, error) {
	switch {
	case !contains(p.CIDR, prefix):
		return netip.Prefix{}, ErrOutOfRange
	case p.index.Overlapping(prefix) > 0:
		return netip.Prefix{}, ErrInUse
	}
	return prefix, nil
}

// exact returns a prefix of the pool, or says why it cannot be had.
func (p *pool) exact(prefix netip.Prefix) (netip.Prefix, error) {
	if p.index.Free(prefix) {
		return prefix, nil
	}
	if block, c, cools := p.space.coolingAt(prefix); cools {
		return netip.Prefix{}, &CoolingError{Prefix: block, Until: c.end()}
	}
	return netip.Prefix{}, ErrInUse
}

// contains reports whether a prefix lies in a CIDR.
func contains(cidr, prefix netip.Prefix) bool {
	return cidr.Overlaps(prefix) && cidr.Bits() <= prefix.Bits()
}
