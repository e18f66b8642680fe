package allocator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// If the comparisons of a call do not hold, that call alone is refused. The other calls of its transaction need one
// more transaction.
func TestGroup_FailsOnlyTheRefutedCall(t *testing.T) {
	const others = 8
	l := withPool(t, "10.0.0.0/16")
	stale, gone := l.bind(request("p", "stale", 28)), l.bind(request("p", "gone", 28))
	must.Do(t, l.Retained().SetPolicy(t.Context(), "stale", ledger.Retain))
	l.free("gone")
	l.bind(request("p", "successor", 28)) // where gone was
	var bound ledger.Block
	refuted := map[string]func() error{
		"bind of a bound claim": func() error {
			again, err := l.Bind(t.Context(), request("p", string(bound.Holder.Claim), 28))
			if err == nil && again != bound {
				err = fmt.Errorf("it became %v", again)
			}
			return err
		},
		"release of a block that has changed": func() error { return wantChanged(l.ReleaseFor(t.Context(), stale, ledger.CauseReleased)) },
		"release of a block that is gone":     func() error { return wantChanged(l.ReleaseFor(t.Context(), gone, ledger.CauseReleased)) },
	}
	for _, round := range []string{"once", "again"} {
		bound = l.bind(request("p", "bound "+round, 28)) // a claim that was refuted is looked for first
		got := l.transactionsOf(len(refuted)+others, func(calls *sync.WaitGroup) {
			for name, call := range refuted {
				calls.Go(func() {
					if err := call(); err != nil {
						t.Errorf("%s, %s: %v", round, name, err)
					}
				})
			}
			for i := range others {
				calls.Go(func() { l.bind(request("p", fmt.Sprint(round, i), 28)) })
			}
		})
		if got != 2 {
			t.Errorf("%s: %d binds beside %d calls that fail took %d transactions; want 2", round, others, len(refuted), got)
		}
	}
	l.sameAsLedger()
}

// One call of a group is refuted. The other calls share the next transaction, without calls that came later: one of
// these might be refuted, too, and so on for ever.
func TestGroup_RefutedCallsDoNotStarveOthers(t *testing.T) {
	const others = 8
	l := withPool(t, "10.0.0.0/16")
	stale := make([]ledger.Block, 4)
	for i := range stale {
		stale[i] = l.bind(request("p", fmt.Sprint("stale", i), 28))
		must.Do(t, l.Retained().SetPolicy(t.Context(), stale[i].Holder.Claim, ledger.Retain))
	}
	var refuted, binds sync.WaitGroup
	again := func(i int64) {
		queued := l.engine.Writer.Queued()
		refuted.Go(func() {
			if err := wantChanged(l.ReleaseFor(t.Context(), stale[i], ledger.CauseReleased)); err != nil {
				t.Errorf("release of a block that has changed: %v", err)
			}
		})
		l.waitQueued(queued + 1)
	}
	inFlight, goOn := l.holdCommits()
	hold := l.engine.Hooks.BeforeCommit
	var sent atomic.Int64
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(id ledger.SpaceID) error {
			err := hold(id)
			if n := sent.Add(1); n == 2 || n == 3 {
				again(n)
			}
			return err
		}
	})
	binds.Go(func() { l.bind(request("p", "first", 28)) })
	<-inFlight
	again(0)
	for i := range others {
		binds.Go(func() { l.bind(request("p", fmt.Sprint(i), 28)) })
	}
	l.waitQueued(others + 1)
	goOn()
	binds.Wait()
	refuted.Wait()
	if n := sent.Load(); n != 4 { // of the first, of the refuted group, of the others, and of those that came meanwhile
		t.Errorf("%d binds beside calls that are refuted take %d transactions, want 4", others, n)
	}
	l.sameAsLedger()
}

// A caller binds a bound claim again and again. That costs the other calls one transaction in all, and not every second
// one.
func TestBind_CostsOtherCallsOneTransactionHoweverOftenRepeated(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	bound := l.bind(request("p", "bound", 28))
	l.bind(request("p", "bound", 28))
	var sent atomic.Int64
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(ledger.SpaceID) error {
			sent.Add(1)
			return nil
		}
	})
	for i := range 4 {
		if again := l.bind(request("p", "bound", 28)); again != bound {
			t.Errorf("the block of a bound claim became %v", again)
		}
		l.bind(request("p", fmt.Sprint("other", i), 28))
	}
	if n := sent.Load(); n != 4 {
		t.Errorf("4 binds beside 4 of a bound claim took %d transactions, want 4", n)
	}
	l.sameAsLedger()
}

// Calls that each need a transaction of their own do not split the calls of another workspace, which share a
// transaction.
func TestGroup_IsNotSplitByCallsOfAnotherWorkspace(t *testing.T) {
	const many = 8
	l := withPool(t, "10.0.0.0/16")
	sent := l.transactionsOf(2*many, func(all *sync.WaitGroup) {
		for i := range many {
			all.Go(func() {
				other := ledger.Pool{ID: ledger.PoolID(fmt.Sprint("q", i)), Cluster: "other", Name: "q", CIDR: prefix(fmt.Sprintf("10.1.%d.0/24", i))}
				must.Get(l.Pools().Register(t.Context(), other))(t)
			})
			all.Go(func() { l.bind(request("p", fmt.Sprint(i), 28)) })
		}
	})
	if sent != many+1 {
		t.Errorf("%d binds beside %d calls that are alone in their transactions take %d transactions, want %d", many, many, sent, many+1)
	}
	l.sameAsLedger()
}

// If a caller goes while its bind is planned, the bind is in the transaction, or it has taken no room.
func TestBind_KeepsNoRoomForACallerThatHasGone(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	ctx, cancel := context.WithCancel(t.Context())
	o := newBind(wanted{Request: request("p", "gone", 25)}, wanted{Request: request("p", "gone", 25)}.holding(time.Now())).op()
	plan, gone := o.Plan, make(chan struct{})
	o.Plan = func(v space.View) (engine.Plan, error) {
		cancel()
		<-gone
		return plan(v)
	}
	s, err := l.engine.Locate(t.Context(), "p")
	must.Do(t, err)
	must.Fail(s.Do(ctx, o))(t, context.Canceled)
	close(gone)
	l.waitIdle(t)
	l.free("gone")
	l.gets(request("p", "all", 24), "10.0.0.0/24")
	l.sameAsLedger()
}

// transactionsOf counts the transactions of some calls that are queued together.
func (l *fixture) transactionsOf(calls int, begin func(*sync.WaitGroup)) int64 {
	l.t.Helper()
	l.waitIdle(l.t)
	var transactions atomic.Int64
	inFlight, goOn := l.holdCommits()
	hold := l.engine.Hooks.BeforeCommit
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(id ledger.SpaceID) error {
			transactions.Add(1)
			return hold(id)
		}
	})
	var all sync.WaitGroup
	first := request("p", rand.Text(), 28)
	all.Go(func() { l.bind(first) })
	<-inFlight
	begin(&all)
	l.waitQueued(calls)
	goOn()
	all.Wait()
	return transactions.Load() - 1 // that of the first
}

func wantChanged(err error) error {
	if errors.Is(err, ledger.ErrChanged) {
		return nil
	}
	return fmt.Errorf("it ends with %w; want ErrChanged", err)
}

// In the plan of a group, the call of a bound claim takes the last room, and the next call finds none. The first call
// is refuted, and the other call gets the room.
func TestGroup_RefusesNoCallBecauseOfARefutedOne(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	bound := l.bind(request("p", "bound", 25))
	l.grouped(
		func() { l.bind(request("p", "first", 26)) },
		func() {
			if again := l.bind(request("p", "bound", 26)); again != bound {
				t.Errorf("the block of a bound claim became %v", again)
			}
		},
		func() { l.gets(request("p", "last", 26), "10.0.0.192/26") },
	)
	l.sameAsLedger()
}
