package allocator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// When a cooldown ends, those that end a moment later go on.
func TestCooldown_EndsNoneEarly(t *testing.T) {
	i := newIcebox(t)
	first, second := i.bind(request("p", "a", 28)), i.bind(request("p", "b", 28))
	i.release("a")
	i.pass(500 * time.Millisecond)
	i.release("b")
	until := i.clock.now().Add(time.Minute)
	i.pass(time.Minute - 500*time.Millisecond)
	i.waitFor(t, "p", func(s *engine.Worker) bool { return !s.Working && len(s.Cooling.Blocks) < 2 })
	i.wantFigures("16", until)
	if b := i.bind(exactly(request("p", "c", 0), first.Prefix.String())); b.Prefix != first.Prefix {
		t.Errorf("after its cooldown %s is bound as %s", first.Prefix, b.Prefix)
	}
	_, err := i.Bind(t.Context(), exactly(request("p", "d", 0), second.Prefix.String()))
	if cooling, ok := errors.AsType[*ledger.CoolingError](err); !ok || !cooling.Until.Equal(until) {
		t.Errorf("Bind of %s, which cools for another half second, = %v; want a CoolingError until %s", second.Prefix, err, until)
	}
}

// The time is in the ledger: an Allocator that was not there when the block was freed ends
// the cooldown, the leader at once and any other a little later.
func TestCooldown_EndsElsewhere(t *testing.T) {
	i := newIcebox(t)
	i.cooldown = 30 * time.Second // no timer looks once in a minute meanwhile, after which none rings for a moment
	i.bind(request("p", "a", 24))
	i.release("a")
	must.Do(t, i.Close())
	i.pass(time.Hour)
	i.Allocator = i.follower()
	i.pass(0)
	i.waitCooling(i.Allocator, 0)
	i.bind(request("p", "b", 24))
	i.release("b")
	i.pass(i.cooldown)
	i.waitCooling(i.Allocator, 1)
	other := i.leader()
	i.pass(0)
	i.waitCooling(i.Allocator, 0)
	i.sameAsLedger(other)
}

// Many end together, in transactions that etcd takes.
func TestCooldown_EndsInBatches(t *testing.T) {
	i := newIcebox(t)
	for n := range 256 {
		i.bind(request("p", fmt.Sprint(n), 32))
	}
	for n := range 256 {
		i.release(ledger.ClaimID(fmt.Sprint(n)))
	}
	i.sameAsLedger(i.follower())
	i.pass(time.Minute)
	i.waitCooling(i.Allocator, 0)
	i.holds(0)
}

// A block that cools as of memory, and has a holder again as of the ledger, is not freed: neither that of another claim
// nor that of the former one. Memory is read again.
func TestCooldown_IsNotEndedWhereMemoryIsWrong(t *testing.T) {
	t.Parallel()
	for _, holder := range []ledger.ClaimID{"theirs", "former"} {
		l := newLedger(t, func(o *Options) { o.Cooldown = func(ledger.Block) (time.Duration, error) { return time.Hour, nil } })
		l.pool("p", "10.0.0.0/24")
		behind, watch := l.behind()
		b := l.bind(request("p", "former", 28))
		l.free("former")
		behind.catchUp(t)
		watch.set(true)
		must.Get(l.etcd.Client().Delete(t.Context(), store.DefaultPrefix+"/claims/former"))(t)
		l.putHeld("p", request("p", string(holder), 28), b.Prefix.String())
		if _, err := behind.Pools().endCooldowns(t.Context(), "p", engine.EndCooldowns{Within: b.Prefix}); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("where %s has the block, the cooldown ends with %v; want %v", holder, err, ledger.ErrUnavailable)
		}
		watch.set(false)
		behind.catchUp(t)
		if got, ok, err := behind.Lookup(t.Context(), holder); err != nil || !ok || got.Prefix != b.Prefix {
			t.Errorf("Lookup of %s = %s, %t, %v; want it to have %s", holder, got.Prefix, ok, err, b.Prefix)
		}
		if ended, err := behind.Pools().endCooldowns(t.Context(), "p", engine.EndCooldowns{Within: b.Prefix}); ended || err != nil {
			t.Errorf("after memory was read again, a cooldown ends: %t, %v", ended, err)
		}
		behind.sameAsLedger()
	}
}

// A CREATE that is answered with a cooling block and fails leaves it as it was.
func TestCooldown_OfAReservation(t *testing.T) {
	for name, tt := range map[string]struct {
		passes  time.Duration
		cooling int
	}{
		"before its time": {30 * time.Second, 1},
		"after its time":  {2 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIcebox(t)
			i.bind(request("p", "web", 28))
			i.release("web")
			until := i.clock.now().Add(time.Minute)
			if got, err := i.Reservations().Preview(t.Context(), reservation("web", 28)); err != nil || got != prefix("10.0.0.0/28") {
				t.Errorf("Preview = %v, %v", got, err)
			}
			b := i.reserve(reservation("web", 28))
			if b.Prefix != prefix("10.0.0.0/28") || b.State != ledger.Reserved || !b.Until.Equal(until) {
				t.Fatalf("Reserve = %+v, want the block that cools until %s", b, until)
			}
			i.wantFigures("0", time.Time{})
			i.sameAsLedger(i.follower())
			i.pass(tt.passes)
			must.Do(t, i.Release(t.Context(), b.Holder.Claim))
			if got := i.engine.Spaces.CountCooling(); got != tt.cooling {
				t.Fatalf("%d blocks cool, want %d", got, tt.cooling)
			}
			if tt.cooling > 0 {
				i.wantFigures("16", until)
			}
			i.sameAsLedger(i.follower())
			if i.Reservations().Has(b.Holder.Claim) {
				t.Error("the reservation is there still")
			}
		})
	}
}

// A reservation that is confirmed has an end no longer, and one that was never bound was nobody's address.
func TestCooldown_OfAReservationThatIsConfirmed(t *testing.T) {
	i := newIcebox(t)
	i.bind(request("p", "web", 28))
	i.release("web")
	if got := i.confirm(confirmation(i.reserve(reservation("web", 28)), "uid")); got.Prefix != prefix("10.0.0.0/28") || !got.Until.IsZero() {
		t.Fatalf("Confirm = %+v, want the block without an end", got)
	}
	i.sameAsLedger(i.follower())
	i.pass(time.Hour)
	i.bind(request("p", "other", 28))
	i.free(i.reserve(reservation("failed", 28)).Holder.Claim)
	i.holds(2)
}
