package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/prometheus/client_golang/prometheus"
)

// Calls that come while a transaction is in flight have their place at once, and share the next one.
func TestAhead_PlannedDuringATransaction(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	got := l.transactionsOf(4, func(calls *sync.WaitGroup) {
		for i := range 4 {
			calls.Go(func() { l.bind(request("p", fmt.Sprint("c", i), 28)) })
		}
		l.waitQueued(4)
		l.wantNext(28, "10.0.0.80/28")
	})
	if got != 1 {
		t.Errorf("they took %d transactions; want 1", got)
	}
	l.sameAsLedger()
}

// wantNext checks which block of pool p a claim would get now.
func (l *fixture) wantNext(length int, want string) {
	l.t.Helper()
	if next, err := l.Preview(l.t.Context(), request("p", "next", length)); next != prefix(want) || err != nil {
		l.t.Errorf("the next block is %v, %v; want %s", next, err, want)
	}
}

// around has a function called before the next transaction is sent, and one when it was answered. Their
// errors replace its outcome. reached is closed first.
func (l *fixture) around(before, after func() error) (reached <-chan struct{}) {
	begun := make(chan struct{})
	var first, answered sync.Once
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(SpaceID) (err error) {
			first.Do(func() {
				close(begun)
				err = before()
			})
			return err
		}
		h.AfterCommit = func(SpaceID) (err error) {
			answered.Do(func() { err = after() })
			return err
		}
	})
	return begun
}

// What was planned behind a transaction is planned again when that fails, or when somebody else has
// changed the space. Nothing is bound twice, and no room is lost.
func TestAhead_GivenUp(t *testing.T) {
	away := errors.New("the network is away")
	for name, tt := range map[string]struct {
		before, after error
		faster        bool    // another writer takes a block before the transaction
		between       bool    // or after it
		conflicts     float64 // what was planned behind it is not sent
	}{
		"not sent":                    {before: away},
		"its answer is lost":          {after: away},
		"another writer was faster":   {faster: true, conflicts: 1},
		"another writer came between": {between: true},
	} {
		t.Run(name, func(t *testing.T) {
			metrics := prometheus.NewRegistry()
			l := newLedger(t, func(o *Options) { o.Registerer = metrics })
			l.pool("p", "10.0.0.0/24")
			other, planned := l.open(), make(chan struct{})
			take := func(take bool, fault error) error {
				if take {
					other.mustBind(t, exactly(request("p", "other", 0), "10.0.0.64/26"))
					l.catchUp(t)
				}
				return fault
			}
			inFlight := l.around(func() error {
				<-planned
				return take(tt.faster, tt.before)
			}, func() error { return take(tt.between, tt.after) })
			var calls sync.WaitGroup
			calls.Go(func() { l.bind(request("p", "first", 27)) })
			<-inFlight
			for i := range 3 {
				calls.Go(func() { l.bind(request("p", fmt.Sprint("behind", i), 27)) })
			}
			l.waitQueued(3)
			l.wantNext(27, "10.0.0.128/27")
			close(planned)
			calls.Wait()
			if n := gathered(t, metrics)["ipam_ledger_conflicts_total"]; n != tt.conflicts {
				t.Errorf("%v conflicts; want %v", n, tt.conflicts)
			}
			l.fillUp()
		})
	}
}

func (a *Allocator) mustBind(t *testing.T, r Request) {
	t.Helper()
	if _, err := a.Bind(t.Context(), r); err != nil {
		t.Errorf("bind %s: %v", r.Holder.Claim, err)
	}
}

// fillUp binds addresses of pool p, one by one, until it is full, and checks that none is left over.
func (l *fixture) fillUp() {
	l.t.Helper()
	var err error
	for i := 0; err == nil; i++ {
		_, err = l.Bind(l.t.Context(), request("p", fmt.Sprint("fill", i), 32))
	}
	if _, full := errors.AsType[*ExhaustedError](err); !full {
		l.t.Errorf("bind: %v; want that the pool is full", err)
	}
	if c, _ := l.Capacity("p"); c.Available.Sign() != 0 {
		l.t.Errorf("%v addresses are free, and cannot be had", c.Available)
	}
	l.sameAsLedger()
}

// Where room depends on what is in flight, a claim waits for the outcome.
func TestAhead_RoomInFlight(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*fixture) error
		want   string // the block of the claim that comes behind; empty: the pool is closed by then
	}{
		"a claim that is bound already": {func(l *fixture) error {
			_, err := l.Bind(t.Context(), request("p", "bound", 27))
			return err
		}, "10.0.0.32/27"},
		"a release": {func(l *fixture) error { return l.Release(t.Context(), "bound") }, "10.0.0.0/27"},
		"an exclusion": {func(l *fixture) error {
			return l.Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.48/28")})
		}, "10.0.0.64/27"},
		"a drain": {func(l *fixture) error { return l.Drain(t.Context(), "p") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			l.pool("p", "10.0.0.0/25")
			l.bind(request("p", "bound", 27))
			inFlight, goOn := l.holdCommits()
			var calls sync.WaitGroup
			calls.Go(func() {
				if err := tt.change(l); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			<-inFlight
			calls.Go(func() {
				b, err := l.Bind(t.Context(), request("p", "behind", 27))
				if tt.want == "" && !errors.Is(err, ErrPoolDraining) {
					t.Errorf("bind behind a drain: %v, %v; want that the pool is draining", b.Prefix, err)
				}
				if tt.want != "" && (err != nil || b.Prefix != prefix(tt.want)) {
					t.Errorf("bind behind %s: %v, %v; want %s", name, b.Prefix, err, tt.want)
				}
			})
			l.waitQueued(1)
			goOn()
			calls.Wait()
			l.sameAsLedger()
		})
	}
}

// withOneInFlight is a ledger with the pool 10.0.0.0/24, and a bind of its first /27 that is in flight.
func withOneInFlight(t *testing.T, calls *sync.WaitGroup) (l *fixture, goOn func()) {
	t.Helper()
	l = newLedger(t)
	l.pool("p", "10.0.0.0/24")
	inFlight, goOn := l.holdCommits()
	calls.Go(func() { l.bind(request("p", "first", 27)) })
	<-inFlight
	return l, goOn
}

// A claim does not overtake one that has to wait for the outcome of a transaction.
func TestAhead_InTurn(t *testing.T) {
	var calls sync.WaitGroup
	l, goOn := withOneInFlight(t, &calls)
	for i, r := range []Request{limited(64, 0, request("p", "limited", 27)), request("p", "last", 27)} {
		calls.Go(func() {
			if b, want := l.bind(r), []string{"10.0.0.32/27", "10.0.0.64/27"}[i]; b.Prefix != prefix(want) {
				t.Errorf("%s got %v; want %s", r.Holder.Claim, b.Prefix, want)
			}
		})
		l.waitQueued(i + 1)
	}
	goOn()
	calls.Wait()
	l.sameAsLedger()
}

// A claim whose own bind is in flight gets the block of that bind. So does a claim that is planned
// behind it twice.
func TestAhead_OneClaim(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	var mu sync.Mutex
	got := map[ClaimID]map[Block]int{"first": {}, "second": {}}
	inFlight, goOn := l.holdCommits()
	var calls sync.WaitGroup
	bind := func(claim ClaimID) {
		b := l.bind(request("p", string(claim), 27))
		mu.Lock()
		defer mu.Unlock()
		got[claim][b]++
	}
	calls.Go(func() { bind("first") })
	<-inFlight
	for _, claim := range []ClaimID{"first", "second", "second"} {
		calls.Go(func() { bind(claim) })
	}
	l.waitQueued(3)
	goOn()
	calls.Wait()
	for claim, blocks := range got {
		if len(blocks) != 1 {
			t.Errorf("claim %s got %v; want one block", claim, blocks)
		}
	}
	l.fillUp()
}

// A limit counts what is in flight, too.
func TestAhead_Limit(t *testing.T) {
	for _, limits := range [][2]int64{{64, 0}, {0, 64}} {
		l := newLedger(t)
		l.pool("p", "10.0.0.0/24")
		inFlight, goOn := l.holdCommits()
		results := make(chan error, 2)
		bind := func(claim string) {
			_, err := l.Bind(t.Context(), limited(limits[0], limits[1], request("p", claim, 26)))
			results <- err
		}
		go bind("first")
		<-inFlight
		go bind("second")
		l.waitQueued(1)
		goOn()
		refused := 0
		for range 2 {
			if err := <-results; err != nil {
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("limits %v: %d of 2 were refused; want 1", limits, refused)
		}
		l.sameAsLedger()
	}
}

// A caller that gives up before the transaction is sent leaves nothing, although its block was chosen.
func TestAhead_GivenUpByTheCaller(t *testing.T) {
	var calls sync.WaitGroup
	l, goOn := withOneInFlight(t, &calls)
	ctx, giveUp := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := l.Bind(ctx, request("p", "gone", 27))
		given <- err
	}()
	l.waitQueued(1)
	calls.Go(func() { l.bind(request("p", "last", 27)) })
	l.waitQueued(2)
	giveUp()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("bind: %v; want context.Canceled", err)
	}
	goOn()
	calls.Wait()
	if b, ok, err := l.Lookup(t.Context(), "gone"); ok || err != nil {
		t.Errorf("a claim that was given up has %v, %v", b.Prefix, err)
	}
	l.fillUp()
}
