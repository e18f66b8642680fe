package allocator

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// While address spaces go, Changes never returns more changes of their pool than there are. Otherwise the next process
// would find that its ledger has lost some.
func TestChanges_NeverReturnsMoreThanThereAre(t *testing.T) {
	const rounds, several = 16, 50
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
			l.bind(request(made[n], fmt.Sprint("c", n), 32))
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
		for n, id := range made {
			l.free(ledger.ClaimID(fmt.Sprint("c", n)))
			l.waitGone(id)
		}
		close(done)
		reader.Wait()
		l.waitIdle(t) // the pool counts them last
		if n := must.Get(l.Pools().Changes("p"))(t); most.Load() > n {
			t.Fatalf("round %d: %d changes were read, and there are %d", round, most.Load(), n)
		}
	}
}
