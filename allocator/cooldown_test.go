package allocator

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// icebox is a ledger with pool p, 10.0.0.0/24, whose blocks cool for a minute. All Allocators that open the ledger
// share a clock.
type icebox struct {
	*room
	cooldown time.Duration
}

func newIcebox(t *testing.T) *icebox {
	t.Helper()
	i := &icebox{room: &room{fixture: &fixture{t: t, etcd: etcdtest.New(t)}, clock: newClock()}, cooldown: time.Minute}
	i.Allocator = i.opened()
	i.pool("p", "10.0.0.0/24")
	return i
}

// opened opens the ledger with the clock of the test.
func (i *icebox) opened() *Allocator {
	i.t.Helper()
	h := engine.RealHooks()
	h.Now, h.After = i.clock.now, i.clock.after
	a, err := open(i.t.Context(), i.etcd.Client(), Options{
		Wake: i.wake, Cooldown: func(ledger.Block) (time.Duration, error) { return i.cooldown, nil },
	}, h)
	if err != nil {
		i.t.Fatalf("open: %v", err)
	}
	i.t.Cleanup(func() { _ = a.Close() })
	return a
}

// again closes the Allocator, and opens the ledger again, as the next process that has the clock of the test.
func (i *icebox) again() {
	i.t.Helper()
	must.Do(i.t, i.Close())
	i.Allocator = i.opened()
}

// pass lets time pass. It first waits until the writer is idle, because the writer sets the timer only after it has
// answered.
func (i *icebox) pass(d time.Duration) {
	i.t.Helper()
	i.waitIdle(i.t)
	i.clock.advance(d)
}

// waitWarm waits until no block cools.
func (i *icebox) waitWarm(a *Allocator) {
	i.t.Helper()
	for a.engine.Spaces.CountCooling() > 0 {
		if i.t.Context().Err() != nil {
			i.t.Fatalf("%d blocks cool, want none", a.engine.Spaces.CountCooling())
		}
	}
}

// named returns a request by a claim with this UID and name.
func named(uid, name string, length int) ledger.Request {
	r := request("p", uid, length)
	r.Holder.Name = name
	return r
}

func (i *icebox) wantFigures(cooling string, next time.Time) {
	i.t.Helper()
	c, _ := i.Pools().Capacity("p")
	if c.Cooling.String() != cooling || !c.NextRelease.Equal(next) {
		i.t.Errorf("cooling are %s addresses until %v, want %s until %v", c.Cooling, c.NextRelease, cooling, next)
	}
	if sum := new(big.Int).Add(c.Allocated, c.Available); sum.Cmp(c.Total) != 0 {
		i.t.Errorf("allocated %s + available %s is not %s", c.Allocated, c.Available, c.Total)
	}
}

func TestCooldown_KeepsTheBlockUntilItsEnd(t *testing.T) {
	i := newIcebox(t)
	i.bind(request("p", "a", 24))
	i.release("a")
	until := i.clock.now().Add(time.Minute)
	i.wantFigures("256", until)
	if b, ok, err := i.Lookup(t.Context(), "a"); ok || err != nil || b != (ledger.Block{}) {
		t.Errorf("Lookup = %+v, %t, %v, want no block", b, ok, err)
	}
	if b, err := i.store.BlockOf(t.Context(), "a"); err != nil || b.State != ledger.Cooling || !b.Until.Equal(until) {
		t.Errorf("latest = %+v, %v, want a block that cools until %s", b, err, until)
	}
	_, err := i.Bind(t.Context(), request("p", "b", 28))
	if full, ok := errors.AsType[*ledger.ExhaustedError](err); !ok || !full.NextRelease.Equal(until) {
		t.Errorf("Bind while the pool cools = %v, want that it is exhausted until %s", err, until)
	}
	if !strings.Contains(fmt.Sprint(err), "the next cooling block is free at 2026-01-01T00:01:00Z") {
		t.Errorf("the refusal is %q, want it to say when the next block is free", err)
	}
	_, err = i.Bind(t.Context(), exactly(request("p", "b", 0), "10.0.0.4/32"))
	if cooling := wantA[*ledger.CoolingError](t, err); !errors.Is(cooling, ledger.ErrInUse) || !cooling.Until.Equal(until) {
		t.Errorf("Bind of a cooling address = %v, want ErrInUse until %s", cooling, until)
	}
	i.release("a") // it is released already
	i.sameAsLedger()
	i.pass(time.Minute - time.Millisecond)
	i.waitIdle(t)
	i.wantFigures("256", until)
	i.pass(time.Millisecond)
	i.waitWarm(i.Allocator)
	i.wantFigures("0", time.Time{})
	i.bind(request("p", "b", 28))
	i.holds(1)
}

// A claim with the former holder's name gets the cooling block back at once.
func TestCooldown_GivesTheBlockBackToTheFormerHoldersName(t *testing.T) {
	for name, tt := range map[string]struct {
		request ledger.Request
		want    string
	}{
		"the same name":     {named("new", "a", 28), "10.0.0.0/28"},
		"the same claim":    {named("a", "a", 28), "10.0.0.0/28"},
		"the same address":  {exactly(named("new", "a", 0), "10.0.0.0/28"), "10.0.0.0/28"},
		"another name":      {named("new", "b", 28), "10.0.0.16/28"},
		"another length":    {named("new", "a", 27), "10.0.0.32/27"},
		"another namespace": {func() ledger.Request { r := named("new", "a", 28); r.Holder.Namespace = "other"; return r }(), "10.0.0.16/28"},
		"another workspace": {func() ledger.Request { r := named("new", "a", 28); r.Holder.Cluster = "other"; return r }(), "10.0.0.16/28"},
		"another class":     {func() ledger.Request { r := named("new", "a", 28); r.Class = "other"; return r }(), "10.0.0.16/28"},
		"names that are run together": {func() ledger.Request {
			r := named("new", "a", 28)
			r.Holder.Namespace, r.Holder.Name = "defaul", "ta"
			return r
		}(), "10.0.0.16/28"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIcebox(t)
			i.bind(request("p", "a", 28))
			i.release("a")
			if got := i.Pools().Regains(tt.request); got != (tt.want == "10.0.0.0/28") {
				t.Errorf("Regains = %t", got)
			}
			b := i.bind(tt.request)
			if b.Prefix != prefix(tt.want) || b.State != ledger.Bound || !b.Until.IsZero() {
				t.Errorf("Bind = %+v, want %s bound without an end", b, tt.want)
			}
			if again := i.bind(tt.request); again != b {
				t.Errorf("a second Bind = %+v, want %+v", again, b)
			}
			i.sameAsLedger()
			i.pass(time.Hour)
			i.waitWarm(i.Allocator)
			if _, ok, err := i.Lookup(t.Context(), tt.request.Holder.Claim); !ok || err != nil {
				t.Errorf("after the cooldown the claim has no block: %v", err)
			}
			i.sameAsLedger()
		})
	}
}

// If several claims of the former holder's name ask in one transaction, one of them gets the block back.
func TestCooldown_GivesABlockBackOnce(t *testing.T) {
	i := newIcebox(t)
	i.bind(request("p", "a", 28))
	i.release("a")
	var back atomic.Int32
	ask := func(r ledger.Request) func() {
		return func() {
			if b := i.bind(r); b.Prefix == prefix("10.0.0.0/28") {
				back.Add(1)
			}
		}
	}
	i.grouped(ask(request("p", "first", 28)), ask(named("a", "a", 28)), ask(named("b", "a", 28)), ask(named("c", "a", 28)))
	if n := back.Load(); n != 1 {
		t.Errorf("the block was given back %d times", n)
	}
	i.sameAsLedger()
}

func TestCooldown_WakesAtItsEnd(t *testing.T) {
	i := newIcebox(t)
	i.bind(request("p", "a", 24))
	i.release("a")
	i.Waits().Add(request("p", "b", 24))
	i.wantWoken()
	i.pass(time.Minute)
	i.waitWarm(i.Allocator)
	i.wantWoken("b")
	i.bind(request("p", "b", 24))
}

// A waiting claim with the former holder's name is woken when the block begins to cool.
func TestCooldown_WakesAClaimWithTheFormerHoldersName(t *testing.T) {
	i := newIcebox(t)
	i.bind(request("p", "a", 24))
	i.Waits().Add(named("new", "a", 24))
	i.Waits().Add(request("p", "b", 24))
	i.wantWoken()
	i.release("a")
	i.wantWoken("new")
	i.gets(named("new", "a", 24), "10.0.0.0/24")
	i.sameAsLedger()
}

// A claim with the former holder's name has waited for the end of a freeze. It is woken then, although nothing is free.
func TestCooldown_WakesAClaimWithTheFormerHoldersNameAfterAFreeze(t *testing.T) {
	i := newIcebox(t)
	i.bind(request("p", "a", 24))
	i.release("a")
	i.freeze(i.Allocator)
	i.Waits().Add(named("new", "a", 24))
	i.Waits().Add(request("p", "other", 28))
	i.wantWoken()
	i.resume(i.Allocator, 0)
	i.wantWoken("new")
	i.gets(named("new", "a", 24), "10.0.0.0/24")
}

func TestCooldown_CountsForTheLimit(t *testing.T) {
	i := newIcebox(t)
	limited := func(claim string) ledger.Request {
		r := request("p", claim, 28)
		r.Limits.Pool = big.NewInt(32)
		return r
	}
	i.bind(limited("a"))
	i.bind(limited("b"))
	i.release("a")
	_, err := i.Bind(t.Context(), limited("c"))
	over, ok := errors.AsType[*ledger.QuotaError](err)
	if !ok || over.Cooling.Int64() != 16 || !strings.Contains(over.Error(), "this one holds 32, and 16 of them cool") {
		t.Errorf("Bind above the limit = %v, want that 16 addresses cool", err)
	}
	i.Waits().Add(limited("c"))
	back := limited("new")
	back.Holder.Name = "a"
	i.bind(back) // it takes no more than is held
	i.release("new")
	i.pass(time.Minute)
	i.waitWarm(i.Allocator)
	i.wantWoken("c")
	i.bind(limited("c"))
	i.sameAsLedger()
}

// A claim gets its former block back whatever the limit of its workspace is, because the limit counts the block
// already. So the claim is woken as soon as it begins to wait.
func TestCooldown_WakesAClaimForItsFormerBlockDespiteTheLimit(t *testing.T) {
	i := newIcebox(t)
	i.bind(limited(16, 0, request("p", "a", 28)))
	i.release("a")
	later := limited(16, 0, named("later", "a", 28))
	i.Waits().Add(limited(16, 0, request("p", "other", 28)))
	i.Waits().Add(later)
	i.wantWoken("later")
	i.gets(later, "10.0.0.0/28")
	i.sameAsLedger()
}
