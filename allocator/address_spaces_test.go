package allocator

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// A claim gets an address in an address space at the moment at which its pool is drained to be retired. The retirement is refused, and the
// pool is as open as before.
func TestRetire_RefusedLeavesThePoolOpen(t *testing.T) {
	i := newIcebox(t)
	other := &fixture{t: t, etcd: i.etcd, Allocator: i.follower()}
	s := i.space("p", "a")
	i.bind(request(s.ID, "former", 32))
	i.free("former")
	other.catchUp(t)
	bind := sync.OnceFunc(func() { other.bind(request(s.ID, "next", 32)) })
	i.swap(func(h *engine.Hooks) {
		h.AfterCommit = func(id ledger.SpaceID) error {
			if p, _, _, err := i.Pools().Read(t.Context(), "p"); err == nil && p.State == ledger.PoolDraining {
				bind()
			}
			return nil
		}
	})
	must.Be(t, i.Pools().Retire(t.Context(), "p"), ledger.ErrPoolInUse)
	for _, a := range []*fixture{i.fixture, other} {
		a.catchUp(t)
		if p, _ := a.Pools().Get("p"); p.State != ledger.PoolOpen {
			t.Errorf("the pool is %s, want %s", p.State, ledger.PoolOpen)
		}
		a.bind(request(a.space("p", "b").ID, "of another network", 32))
	}
	i.bind(request(i.space("p", "a").ID, "of the same network", 32))
	i.sameAsLedger(other.Allocator)
}

// While address spaces go, nobody reads more changes of their pool than there are: the next process would take the ledger for one that
// has lost some.
func TestChanges_NeverTooMany(t *testing.T) {
	const rounds, several = 4, 50
	var most atomic.Int64
	note := func(ps Pools) {
		n, _ := ps.Changes("p")
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
	}
	l := newLedger(t, func(o *Options) { o.Changed = func(ps Pools, _ ...ledger.PoolID) { note(ps) } })
	l.pool("p", "10.0.0.0/24")
	for round := range rounds {
		var made []ledger.PoolID
		for n := range several {
			made = append(made, l.space("p", fmt.Sprint(n)).ID)
			l.bind(request(made[n], "c", 32))
			l.free("c")
		}
		done := make(chan struct{})
		var reader sync.WaitGroup
		reader.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					note(l.Pools())
				}
			}
		})
		for _, id := range made {
			must.Do(t, l.Pools().Retire(t.Context(), id))
		}
		close(done)
		reader.Wait()
		if n := must.Get(l.Pools().Changes("p"))(t); most.Load() > n {
			t.Fatalf("round %d: %d changes were read, and there are %d", round, most.Load(), n)
		}
	}
}

// An Allocator that ends a dispute may stop anywhere. The next call for the disputed pool goes on, down to the address spaces of the pools
// below.
func TestEndDispute_GoesOnWithAddressSpacesBelow(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	must.Get(l.carve("p", "child", 24))(t)
	below := l.provision("child", 26, ofNetwork("net", "a"))
	s := l.space(below.ID, "b")
	if x := l.adopt("x", "10.0.0.0/32", ledger.Bound); x.State != ledger.Disputed {
		t.Fatalf("Adopt = %v, want it disputed", x)
	}
	l.wantStopped(l.Allocator, s.ID)
	l.free("x")
	for _, id := range []ledger.PoolID{"child", below.ID} {
		if over, err := l.Pools().endDispute(t.Context(), id); err != nil || !over {
			t.Fatalf("endDispute(%s) = %t, %v; want true", id, over, err)
		}
	}
	l.endDispute(l.Allocator, "child")
	l.bind(request(s.ID, "new", 32))
	l.sameAsLedger(l.open())
}

// A range with many address spaces is closed, and opened again, in much less time than their transactions take one after another.
func TestBegin_ClosesAddressSpacesAtOnce(t *testing.T) {
	const many, together = 40, 8
	l := withPool(t, "10.0.0.0/16")
	p := l.provision("p", 24, held("a"))
	for n := range many {
		l.space(p.ID, fmt.Sprint(n))
	}
	var mu sync.Mutex
	var alone atomic.Bool
	inFlight, full := 0, make(chan struct{})
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(id ledger.SpaceID) error {
			if id == p.Space || alone.Load() {
				return nil
			}
			mu.Lock()
			wait := full
			if inFlight++; inFlight == together {
				close(full)
				inFlight, full = 0, make(chan struct{})
			}
			mu.Unlock()
			select {
			case <-wait:
			case <-time.After(5 * time.Second):
				alone.Store(true)
			}
			return nil
		}
	})
	until := time.Now()
	must.Get(l.Derived().Begin(t.Context(), p.ID, "range", until))(t)
	must.Do(t, l.Derived().Reopen(t.Context(), p.ID, until))
	if alone.Load() {
		t.Errorf("a transaction waits for the one before it, want %d in flight", together)
	}
	l.sameAsLedger(l.open())
}

// An address space that was retired while nobody told this Allocator is gone from its memory, when the ledger was read again: before its
// pool is as it is without it, so that nobody takes its addresses for used.
func TestReread_AnAddressSpaceThatWasRetired(t *testing.T) {
	t.Parallel()
	for name, retirer := range map[string]func(l, behind *fixture) *fixture{
		"by another": func(l, _ *fixture) *fixture { return l },
		"by itself":  func(_, behind *fixture) *fixture { return behind },
	} {
		t.Run(name, func(t *testing.T) {
			l := withPool(t, "10.0.0.0/24")
			s := l.space("p", "a")
			l.bind(request(s.ID, "c", 32))
			var read atomic.Bool
			behind, watch := l.behind(func(o *Options) {
				o.Changed = func(ps Pools, _ ...ledger.PoolID) {
					p, known := ps.Get("p")
					if _, there := ps.Get(s.ID); known && there && p.Spaces == 0 && !read.Load() {
						t.Error("the pool has no address space, and memory has one of it")
					}
				}
			})
			by := retirer(l, behind)
			l.free("c")
			behind.catchUp(t)
			l.missed(behind, watch, func() { must.Do(t, by.Pools().Retire(t.Context(), s.ID)) })
			read.Store(true)
			for _, w := range behind.engine.Spaces.All() {
				if w.ID == s.Space {
					t.Errorf("memory has the space %s, which is gone: %t", w.ID, w.Gone)
				}
			}
			if behind.Pools().InUse("p") {
				t.Error("the pool is in use by an address space that is gone")
			}
			behind.bind(request(behind.space("p", "a").ID, "d", 32))
			l.sameAsLedger(behind.Allocator)
		})
	}
}
