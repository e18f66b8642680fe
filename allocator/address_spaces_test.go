package allocator

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// A claim gets an address in an address space at the moment at which its pool is drained to be retired. The retirement is refused, and the
// pool is as open as before.
func TestRetire_RefusedLeavesThePoolOpen(t *testing.T) {
	i := newIcebox(t)
	s := i.space("p", "a")
	i.bind(request(s.ID, "former", 32))
	i.free("former")
	var others sync.WaitGroup
	bind := sync.OnceFunc(func() {
		others.Go(func() { i.bind(request(s.ID, "next", 32)) })
		i.waitQueued(1)
	})
	i.swap(func(h *engine.Hooks) {
		h.AfterCommit = func(id ledger.SpaceID) error {
			if p, _, _, err := i.Pools().Read(t.Context(), "p"); err == nil && p.State == ledger.PoolDraining {
				bind()
			}
			return nil
		}
	})
	must.Be(t, i.Pools().Retire(t.Context(), "p"), ledger.ErrPoolInUse)
	others.Wait()
	if p, _ := i.Pools().Get("p"); p.State != ledger.PoolOpen {
		t.Errorf("the pool is %s, want %s", p.State, ledger.PoolOpen)
	}
	i.bind(request(i.space("p", "b").ID, "of another network", 32))
	i.bind(request(i.space("p", "a").ID, "of the same network", 32))
	i.sameAsLedger()
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
