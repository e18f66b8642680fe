package allocator

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
	"github.com/kcp-ipam/ipam/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(etcdtest.Sharing{M: m}) }

// fixture is an etcd and an Allocator on it, for one test.
type fixture struct {
	*Allocator
	t    *testing.T
	etcd *etcdtest.Etcd
	kept ledger.Block // retained, of a test
	made ledger.Block // bound for a CREATE, of a test
	// Pools of a test: one that a claim holds, one that is being released, one that nobody holds, an address space with
	// one block, and one with none.
	derived, shut, loose, lone, unbegun ledger.PoolID
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func newLedger(t *testing.T, options ...func(*Options)) *fixture {
	t.Helper()
	l := &fixture{t: t, etcd: etcdtest.New(t)}
	l.Allocator = l.open(options...)
	return l
}

// reopen opens the ledger of an etcd that a test has used before.
func reopen(t *testing.T, e *etcdtest.Etcd) *fixture {
	t.Helper()
	l := &fixture{t: t, etcd: e}
	l.Allocator = l.open()
	return l
}

// withPool returns a ledger with pool p.
func withPool(t *testing.T, cidr string) *fixture {
	t.Helper()
	l := newLedger(t)
	l.pool("p", cidr)
	return l
}

// open opens another Allocator on the same ledger.
func (l *fixture) open(options ...func(*Options)) *Allocator {
	l.t.Helper()
	o := Options{MaxTxnOps: l.etcd.MaxTxnOps()}
	for _, set := range options {
		set(&o)
	}
	a := must.Get(Open(l.t.Context(), l.etcd.Client(), o))(l.t)
	l.t.Cleanup(func() {
		if err := a.Close(); err != nil {
			l.t.Errorf("Close: %v", err)
		}
	})
	return a
}

// again ends the Allocator, and opens the ledger by another Allocator.
func (l *fixture) again(options ...func(*Options)) *Allocator {
	l.t.Helper()
	must.Do(l.t, l.Close())
	l.Allocator = l.open(options...)
	return l.Allocator
}

// wantA returns an error as one of a type, and ends the test if it is not of that type.
func wantA[T error](t *testing.T, err error) T {
	t.Helper()
	as, ok := errors.AsType[T](err)
	if !ok {
		t.Fatalf("error %v, want %T", err, as)
	}
	return as
}

// failsAs ends the test unless a call has failed with an error of a type. The call returns a value, too.
func failsAs[T error, V any](_ V, err error) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		_ = wantA[T](t, err)
	}
}

// pool registers a root pool of the workspace "platform".
func (l *fixture) pool(id ledger.PoolID, cidr string) ledger.Pool {
	l.t.Helper()
	return must.Get(l.Pools().Register(l.t.Context(), ledger.Pool{ID: id, Cluster: "platform", Name: string(id), CIDR: prefix(cidr)}))(l.t)
}

// request asks for a block of a length for a claim.
func request(pool ledger.PoolID, claim string, length int) ledger.Request {
	return ledger.Request{Pool: pool, Begins: begins(pool), Length: length, Holder: ledger.Holder{
		Claim: ledger.ClaimID(claim), Cluster: "tenant", Namespace: "default", Name: claim,
	}}
}

// bind binds a block, and fails the test if the bind fails.
func (l *fixture) bind(r ledger.Request) ledger.Block {
	l.t.Helper()
	b, err := l.Bind(l.t.Context(), r)
	if err != nil {
		l.t.Fatalf("bind %s: %v", r.Holder.Claim, err)
	}
	return b
}

// gets fails the test unless the claim gets this block.
func (l *fixture) gets(r ledger.Request, block string) {
	l.t.Helper()
	if b := l.bind(r); b.Prefix != prefix(block) {
		l.t.Errorf("claim %s got %s of pool %s, want %s", r.Holder.Claim, b.Prefix, r.Pool, block)
	}
}

// sameAsLedger fails the test unless memory has exactly the blocks of the ledger, in every pool. No call may be under
// way, except calls that their callers have given up: sameAsLedger waits until these are done.
func (l *fixture) sameAsLedger() []etcdtest.Record {
	l.t.Helper()
	l.waitIdle(l.t)
	blocks := etcdtest.CheckLedger(l.t, l.etcd.Client(), store.DefaultPrefix)
	for p := range l.Pools().All() {
		c, _ := l.Pools().Capacity(p.ID)
		want := newTally(p, blocks)
		if got := (tally{c.Blocks, c.Allocated.String(), c.Cooling.String()}); got != want {
			l.t.Errorf("pool %s: has %v, want %v", p.ID, got, want)
		}
	}
	return blocks
}

// holds fails the test unless memory is as the ledger, and the ledger has n blocks.
func (l *fixture) holds(n int) {
	l.t.Helper()
	if blocks := l.sameAsLedger(); len(blocks) != n {
		l.t.Errorf("the ledger has %d blocks, want %d: %v", len(blocks), n, blocks)
	}
}

// tally is a pool's blocks, and its allocated and cooling addresses.
type tally struct {
	blocks    int
	allocated string
	cooling   string
}

// newTally counts in the slowest way: it fills an index with the blocks.
func newTally(p ledger.Pool, blocks []etcdtest.Record) tally {
	x := index.New(p.CIDR)
	for _, prefix := range p.Excluded {
		x.Exclude(prefix)
	}
	own, cooling := 0, new(big.Int)
	for _, b := range blocks {
		if b.Space != string(p.Space) {
			continue
		}
		x.Take(b.Prefix)
		if b.State == "cooling" && b.Prefix.Overlaps(p.CIDR) {
			cooling.Add(cooling, cidr.Size(cidr.Narrower(b.Prefix, p.CIDR)))
		} else if b.Pool == string(p.ID) {
			own++
		}
	}
	return tally{own, new(big.Int).Sub(x.Total(), x.Available()).String(), cooling.String()}
}

// holdCommits makes commits wait: inFlight receives a value when the first commit is about to be sent, and goOn lets
// this and all later commits through.
func (l *fixture) holdCommits() (inFlight <-chan struct{}, goOn func()) {
	reached, pass := make(chan struct{}, 1), make(chan struct{})
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(ledger.SpaceID) error {
			select {
			case reached <- struct{}{}:
			default:
			}
			<-pass
			return nil
		}
	})
	return reached, func() { close(pass) }
}

// grouped makes calls that share a transaction, in their order: they are queued while the transaction of the call first
// is in flight.
func (l *fixture) grouped(first func(), calls ...func()) {
	l.t.Helper()
	l.waitIdle(l.t)
	inFlight, goOn := l.holdCommits()
	var all sync.WaitGroup
	all.Go(first)
	<-inFlight
	for i, call := range calls {
		all.Go(call)
		l.waitQueued(i + 1)
	}
	goOn()
	all.Wait()
}

// swap changes the hooks. No transaction may be under way.
func (l *fixture) swap(change func(*engine.Hooks)) {
	change(&l.engine.Hooks)
}

// waitQueued waits until n requests are queued.
func (l *fixture) waitQueued(n int) {
	l.t.Helper()
	waitUntil(l.t, func() bool { return l.engine.Writer.Queued() >= n })
}

// waitIdle waits until the writer has nothing left to do, and all notifications are delivered.
func (a *Allocator) waitIdle(t *testing.T) {
	t.Helper()
	waitUntil(t, a.engine.Writer.Idle)
}

func (a *Allocator) waitFor(t *testing.T, id ledger.PoolID, ok func(*engine.Space) bool) {
	t.Helper()
	if w, found := a.engine.SpaceOf(id); found {
		until(t, w, ok)
	}
}

func until(t *testing.T, s *engine.Space, ok func(*engine.Space) bool) {
	t.Helper()
	waitUntil(t, func() bool {
		s.Lock()
		defer s.Unlock()
		return ok(s)
	})
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for t.Context().Err() == nil && !ok() {
		runtime.Gosched()
	}
}

// wantBlocks fails the test unless the ledger has these blocks, as "prefix claim state".
func (l *fixture) wantBlocks(want ...string) {
	l.t.Helper()
	got := []string{}
	for _, b := range l.sameAsLedger() {
		got = append(got, fmt.Sprint(b.Prefix, " ", b.Claim, " ", b.State))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("got  %v\nwant %v", got, want)
	}
}

func (l *fixture) adopt(claim, p string) {
	l.t.Helper()
	must.Get(l.Recovery().Adopt(l.t.Context(), exactly(request("p", claim, 0), p), ledger.Bound))(l.t)
}

func (l *fixture) free(claim ledger.ClaimID) {
	l.t.Helper()
	must.Do(l.t, l.Release(l.t.Context(), claim))
}

// member returns a pool of an address domain.
func member(id ledger.PoolID, cidr string) ledger.Pool {
	p := root(id, cidr)
	p.Space = ledger.DomainSpace("platform", "d")
	return p
}
