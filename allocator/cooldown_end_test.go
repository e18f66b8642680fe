package allocator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
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
	i.waitFor(t, "p", func(s *engine.Space) bool { return len(s.Cooling.Blocks) < 2 })
	i.wantFigures("16", until)
	if b := i.bind(exactly(request("p", "c", 0), first.Prefix.String())); b.Prefix != first.Prefix {
		t.Errorf("after its cooldown %s is bound as %s", first.Prefix, b.Prefix)
	}
	_, err := i.Bind(t.Context(), exactly(request("p", "d", 0), second.Prefix.String()))
	if cooling, ok := errors.AsType[*ledger.CoolingError](err); !ok || !cooling.Until.Equal(until) {
		t.Errorf("Bind of %s, which cools for another half second, = %v; want a CoolingError until %s", second.Prefix, err, until)
	}
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
	i.sameAsLedger()
	i.pass(time.Minute)
	i.waitWarm(i.Allocator)
	i.holds(0)
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
			i.sameAsLedger()
			i.pass(tt.passes)
			must.Do(t, i.Release(t.Context(), b.Holder.Claim))
			if got := i.engine.Spaces.CountCooling(); got != tt.cooling {
				t.Fatalf("%d blocks cool, want %d", got, tt.cooling)
			}
			if tt.cooling > 0 {
				i.wantFigures("16", until)
			}
			i.sameAsLedger()
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
	i.sameAsLedger()
	i.pass(time.Hour)
	i.bind(request("p", "other", 28))
	i.free(i.reserve(reservation("failed", 28)).Holder.Claim)
	i.holds(2)
}
