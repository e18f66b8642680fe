package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// room is a ledger with one pool, a clock, and a record of the claims that were woken.
type room struct {
	*fixture
	clock *clock

	mu    sync.Mutex
	woken []ledger.ClaimID
}

func newRoom(t *testing.T) *room {
	t.Helper()
	r := &room{fixture: &fixture{t: t, etcd: etcdtest.New(t)}, clock: newClock()}
	h := engine.RealHooks()
	h.Now, h.After = r.clock.now, r.clock.after
	a := must.Get(open(t.Context(), r.etcd.Client(), Options{Wake: r.wake}, h))(t)
	r.Allocator = a
	t.Cleanup(func() { _ = a.Close() })
	r.pool("p", "10.0.0.0/24")
	return r
}

func (r *room) wake(h ledger.Holder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.woken = append(r.woken, h.Claim)
}

// wakes returns the claims that were woken since the last call.
func (r *room) wakes() []ledger.ClaimID {
	r.waitIdle(r.t)
	r.mu.Lock()
	defer r.mu.Unlock()
	woken := r.woken
	r.woken = nil
	return woken
}

func (r *room) wantWoken(want ...ledger.ClaimID) {
	r.t.Helper()
	if got := r.wakes(); !slices.Equal(got, want) {
		r.t.Errorf("woken: %v, want %v", got, want)
	}
}

// since returns a request by a claim that was made at this second.
func since(second int, req ledger.Request) ledger.Request {
	req.Since = time.Unix(int64(second), 0)
	return req
}

func exactly(req ledger.Request, p string) ledger.Request {
	req.Exact = prefix(p)
	return req
}

func (r *room) release(claims ...ledger.ClaimID) {
	r.t.Helper()
	for _, claim := range claims {
		must.Do(r.t, r.Release(r.t.Context(), claim))
	}
}

func (r *room) refused(req ledger.Request) {
	r.t.Helper()
	var exhausted *ledger.ExhaustedError
	if b, err := r.Bind(r.t.Context(), req); !errors.As(err, &exhausted) && !errors.Is(err, ledger.ErrInUse) {
		r.t.Errorf("%s got %s, %v", req.Holder.Claim, b.Prefix, err)
	}
}

// waiting counts the claims that wait for room in a pool, those with a hold included.
func waiting(a *Allocator, id ledger.PoolID) (n int) {
	a.table.Visit(id, func(p *space.Pool) { n = p.Waiting.Len() })
	return n
}

func TestWaiting_WakesTheOldestThatFits(t *testing.T) {
	r := newRoom(t)
	for i := range 4 {
		r.bind(request("p", fmt.Sprint("c", i), 26))
	}
	r.Waits().Add(since(3, request("p", "young", 26)))
	r.Waits().Add(since(2, request("p", "old", 26)))
	r.Waits().Add(since(1, request("p", "large", 25)))
	r.Waits().Add(since(2, request("p", "also old", 26)))
	r.wantWoken()

	r.release("c1")
	r.wantWoken("also old") // the large one does not fit, and of equals the name decides
	r.refused(request("p", "newcomer", 26))
	r.refused(request("p", "newcomer", 32))
	r.gets(request("p", "also old", 26), "10.0.0.64/26")
	r.release("c2", "c3")
	r.wantWoken("old", "young")
	r.release("also old", "c0")
	r.wantWoken("large")
	r.gets(request("p", "large", 25), "10.0.0.0/25")
	if n := waiting(r.Allocator, "p"); n != 2 {
		t.Error(n, "wait, want the two that have not come")
	}
	r.bind(request("p", "young", 26))
	r.bind(request("p", "old", 26))
	if n := waiting(r.Allocator, "p"); n != 0 {
		t.Error(n, "still wait")
	}
	r.sameAsLedger()
}

func TestWaiting_WakesAClaimAtOnceIfThereIsRoom(t *testing.T) {
	r := newRoom(t)
	r.Waits().Add(request("p", "c", 25))
	r.wantWoken("c")
	r.refused(request("p", "newcomer", 24))
	r.Waits().Add(exactly(request("p", "d", 0), "10.0.0.128/25"))
	r.wantWoken("d")
	r.refused(request("p", "newcomer", 32))
	if c, _ := r.Pools().Capacity("p"); c.Allocated.Sign() != 0 || c.Blocks != 0 {
		t.Error("a hold is not an allocation:", c)
	}
	r.Waits().Withdraw("c")
	r.bind(request("p", "newcomer", 25))
	r.bind(exactly(request("p", "d", 0), "10.0.0.128/25"))
	r.sameAsLedger()
}

func TestWaiting_WakesWhenAnExclusionIsLifted(t *testing.T) {
	r := newRoom(t)
	must.Do(t, r.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/24")}))
	r.Waits().Add(request("p", "w", 26))
	r.wantWoken()
	must.Do(t, r.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/25")}))
	r.wantWoken("w")
	r.gets(request("p", "w", 26), "10.0.0.128/26")
}

// If the prefix that is held for a claim is excluded, the hold ends, and the claim goes on waiting.
func TestWaiting_GoesOnIfTheHoldIsExcluded(t *testing.T) {
	r := newRoom(t)
	r.Waits().Add(request("p", "w", 25))
	r.wantWoken("w")
	must.Do(t, r.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/26")}))
	r.wantWoken("w")
	r.sameAsLedger()
	r.gets(request("p", "w", 25), "10.0.0.128/25")
}

// A pool has refused a claim, and then begun to drain, or gone. The claim does not wait there: it is woken at once,
// because nothing would wake it later.
func TestWaiting_EndsWithThePool(t *testing.T) {
	r := newRoom(t)
	r.bind(request("p", "c", 24))
	r.Waits().Add(request("p", "w", 26))
	must.Do(t, r.Pools().Drain(t.Context(), "p"))
	r.Waits().Add(request("p", "late", 26))
	r.Waits().Add(request("q", "nowhere", 26))
	r.Waits().Add(request("p", "of another family", 64))
	if n := waiting(r.Allocator, "p") + waiting(r.Allocator, "q"); n != 0 {
		t.Error(n, "wait for a pool that hands out nothing")
	}
	r.wantWoken("w", "late", "nowhere") // to look elsewhere
}

// A claim keeps its place in the list when its transaction fails.
func TestWaiting_KeepsTheOrderWhenATransactionFails(t *testing.T) {
	r := newRoom(t)
	r.bind(request("p", "c", 24))
	r.Waits().Add(since(1, request("p", "old", 24)))
	r.Waits().Add(since(2, request("p", "young", 24)))
	r.release("c")
	r.wantWoken("old")
	r.swap(func(h *engine.Hooks) { h.BeforeCommit = once(errLost) })
	r.bind(request("p", "old", 24))
	if woken := r.wakes(); slices.Contains(woken, "young") {
		t.Errorf("wakes: %v", woken)
	}
	r.sameAsLedger()
}

// clock is a time that a test moves.
type clock struct {
	mu     sync.Mutex
	time   time.Time
	timers map[int]timer
	last   int
}

type timer struct {
	at time.Time
	f  func()
}

func newClock() *clock {
	return &clock{time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), timers: map[int]timer{}}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.time
}

func (c *clock) after(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id := c.last
	c.timers[id] = timer{at: c.time.Add(d), f: f}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, running := c.timers[id]
		delete(c.timers, id)
		return running
	}
}

// advance lets time pass, and runs the functions that are due.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	c.time = c.time.Add(d)
	var due []func()
	for id, t := range c.timers {
		if !t.at.After(c.time) {
			due = append(due, t.f)
			delete(c.timers, id)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}
