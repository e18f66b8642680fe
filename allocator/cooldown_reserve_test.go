package allocator

import (
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

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
			if err := i.Release(t.Context(), b.Holder.Claim); err != nil {
				t.Fatalf("Release: %v", err)
			}
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

func TestCooldown_OfAReservationThatIsConfirmed(t *testing.T) {
	i := newIcebox(t)
	i.bind(request("p", "web", 28))
	i.release("web")
	b := i.reserve(reservation("web", 28))
	got, ok, err := i.Reservations().Confirm(t.Context(), confirmation(b, "uid"))
	if err != nil || !ok || got.Prefix != prefix("10.0.0.0/28") || !got.Until.IsZero() {
		t.Fatalf("Confirm = %+v, %t, %v, want the block without an end", got, ok, err)
	}
	i.sameAsLedger(i.follower())
	i.pass(time.Hour)
	i.bind(request("p", "other", 28))
	if blocks := i.sameAsLedger(); len(blocks) != 2 {
		t.Errorf("the ledger has %v", blocks)
	}
}

// A reservation that was never bound was nobody's address.
func TestCooldown_NoneForAReservation(t *testing.T) {
	i := newIcebox(t)
	b := i.reserve(reservation("web", 28))
	if err := i.Release(t.Context(), b.Holder.Claim); err != nil {
		t.Fatalf("Release: %v", err)
	}
	if blocks := i.sameAsLedger(); len(blocks) != 0 {
		t.Errorf("the ledger has %v, want nothing", blocks)
	}
}
