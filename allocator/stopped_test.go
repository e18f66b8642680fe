package allocator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// wantStopped fails the test unless a pool allocates nothing, because of a dispute above it.
func (l *fixture) wantStopped(a *Allocator, pool ledger.PoolID) {
	l.t.Helper()
	b, err := a.Bind(l.t.Context(), request(pool, "new", 32))
	if frozen, ok := errors.AsType[*ledger.FrozenError](err); !ok || !frozen.Disputed || frozen.Lost {
		l.t.Errorf("Bind in %s = %s, %v; want it refused, as its addresses are in dispute", pool, b.Prefix, err)
	}
}

// endDispute calls EndDispute, and fails the test if that fails.
func (l *fixture) endDispute(a *Allocator, pool ledger.PoolID) {
	l.t.Helper()
	if err := a.Pools().EndDispute(l.t.Context(), pool); err != nil {
		l.t.Errorf("EndDispute(%s): %v", pool, err)
	}
}

// A record shows addresses of a child pool as those of another claim. While the child's block is in dispute,
// no Allocator gives anything out of it, or out of the pool below it that has these addresses.
func TestDispute_StopsAChild(t *testing.T) {
	for name, adopted := range map[string]string{
		"a block inside": "10.0.0.0/32",
		"the same block": "10.0.0.0/24",
		"a block around": "10.0.0.0/23",
	} {
		t.Run(name, func(t *testing.T) {
			woken := make(chan ledger.Holder, 10)
			l := newLedger(t, func(o *Options) { o.Wake = func(h ledger.Holder) { woken <- h } })
			other := l.open()
			l.pool("p", "10.0.0.0/16")
			for _, at := range []struct {
				parent, child ledger.PoolID
				length        int
			}{{"p", "child", 24}, {"child", "grandchild", 26}, {"p", "sibling", 23}} {
				must.Get(l.carve(at.parent, at.child, at.length))(t)
			}
			if x := l.adopt("x", adopted, ledger.Bound); x.State != ledger.Disputed {
				t.Errorf("Adopt = %v, want it disputed", x)
			}
			l.endDispute(other, "child") // which it does not
			for allocator, a := range map[string]*Allocator{"its own": l.Allocator, "another": other, "a new one": l.open()} {
				t.Run(allocator, func(*testing.T) {
					l.endDispute(a, "grandchild")
					l.wantStopped(a, "child")
					l.wantStopped(a, "grandchild")
				})
			}
			l.bind(request("sibling", "beside", 24))
			l.Waits().Add(request("child", "waits", 28))
			if len(woken) > 0 {
				t.Errorf("%v was woken", <-woken)
			}
			l.free("x")
			if h := <-woken; h.Claim != "child" {
				t.Errorf("%v was woken, want the child", h)
			}
			l.endDispute(l.Allocator, "child")
			if h := <-woken; h.Claim != "waits" {
				t.Errorf("%v was woken, want the claim that waits", h)
			}
			l.bind(request("child", "waits", 28))
			l.bind(request("grandchild", "below", 28))
			l.sameAsLedger(other, l.open())
		})
	}
}

// A child of a pool that is stopped is stopped, too: it is put back where its status shows it, which may be
// the addresses in dispute.
func TestDispute_StopsAChildThatComesBack(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	must.Get(l.carve("p", "child", 24))(t)
	l.adopt("x", "10.0.0.0/32", ledger.Bound)
	again := ledger.Pool{ID: "grandchild", Cluster: "tenant", Name: "grandchild"}
	must.Get(l.Recovery().Readopt(t.Context(), exactly(request("child", "grandchild", 0), "10.0.0.0/26"), again))(t)
	must.Do(t, l.Recovery().Resume(t.Context(), "grandchild", 0))
	l.wantStopped(l.Allocator, "grandchild")
	l.free("x")
	l.endDispute(l.Allocator, "child")
	l.bind(request("grandchild", "c", 28))
	l.sameAsLedger(l.open())
}

// However often a dispute begins and ends while others try to end it: once Adopt has returned, the child
// gives nothing out.
func TestDispute_StopsAChildAgain(t *testing.T) {
	l := newLedger(t)
	others := []*Allocator{l.open(), l.open()}
	l.pool("p", "10.0.0.0/16")
	must.Get(l.carve("p", "child", 24))(t)
	must.Get(l.carve("child", "grandchild", 26))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var enders sync.WaitGroup
	for _, a := range others {
		enders.Go(func() {
			for ctx.Err() == nil {
				for _, id := range []ledger.PoolID{"child", "grandchild"} {
					if err := a.Pools().EndDispute(ctx, id); err != nil && ctx.Err() == nil {
						t.Errorf("EndDispute(%s): %v", id, err)
					}
				}
			}
		})
	}
	for round := range 30 {
		x := fmt.Sprint("x", round)
		l.adoptDespite(x, "10.0.0.0/32")
		for _, id := range []ledger.PoolID{"child", "grandchild"} {
			l.wantStopped(l.Allocator, id)
			l.wantStopped(others[0], id)
		}
		l.free(ledger.ClaimID(x))
	}
	cancel()
	enders.Wait()
	for _, id := range []ledger.PoolID{"child", "grandchild"} { // the enders may have ended with either in dispute
		l.endDispute(l.Allocator, id)
	}
	l.bind(request("grandchild", "c", 28))
	l.sameAsLedger(others...)
}

// adoptDespite adopts a block, however often others change what is there.
func (l *fixture) adoptDespite(claim, p string) {
	l.t.Helper()
	err := ledger.ErrBusy
	for errors.Is(err, ledger.ErrBusy) {
		_, err = l.Recovery().Adopt(l.t.Context(), exactly(request("p", claim, 0), p), ledger.Bound)
	}
	if err != nil {
		l.t.Fatalf("Adopt: %v", err)
	}
}

// A process that stops between a pool, whose dispute is over, and its address spaces leaves these stopped. They go on with the next reconcile
// of the pool: they have no IPPool of their own.
func TestEndDispute_GoesOnWithAddressSpaces(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	net := l.provision("p", 24, ofNetwork("net", "a"))
	s := l.space(net.ID, "b").ID
	l.adopt("rival", net.CIDR.String(), ledger.Bound)
	l.free("rival")
	l.wantStopped(l.Allocator, s)
	must.Do(t, l.Pools().edit(t.Context(), edit{pool: net, change: func(p *ledger.Pool) { p.Disputed = false }}))
	l.wantStopped(l.Allocator, s)
	next := l.open()
	l.endDispute(next, net.ID)
	must.Get(next.Bind(t.Context(), request(s, "c", 32)))(t)
	l.sameAsLedger(next)
}
