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

// When a cooldown ends, a cooldown that ends half a second later goes on.
func TestCooldown_EndsWithoutEndingALaterCooldown(t *testing.T) {
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

// Many cooldowns end together. Their blocks are freed in several transactions, each small enough for etcd.
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

// The block of a failed CREATE becomes what it was before, however many CREATEs fail: free, or cooling until its old
// time.
func TestCooldown_GoesOnAfterAFailedCreate(t *testing.T) {
	for name, tt := range map[string]struct {
		cools   bool // before the CREATE
		passes  time.Duration
		cooling int
	}{
		"before its time": {true, 20 * time.Second, 1},
		"after its time":  {true, 2 * time.Minute, 0},
		"without one":     {false, 20 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIcebox(t)
			until := time.Time{}
			if tt.cools {
				i.bind(request("p", "web", 28))
				i.release("web")
				until = i.clock.now().Add(time.Minute)
			}
			for n := range 2 {
				r := created(fmt.Sprint("attempt ", n), 28)
				r.Holder.Name = "web"
				if got, err := i.Preview(t.Context(), r); err != nil || got != prefix("10.0.0.0/28") {
					t.Errorf("Preview = %v, %v", got, err)
				}
				b := i.bind(r)
				if b.Prefix != prefix("10.0.0.0/28") || b.State != ledger.Bound || !b.Until.Equal(until) {
					t.Fatalf("Bind = %+v, want the block that cools until %s", b, until)
				}
				i.wantFigures("0", time.Time{})
				i.sameAsLedger()
				i.pass(tt.passes)
				i.failed(b)
				if got := i.engine.Spaces.CountCooling(); got != tt.cooling {
					t.Fatalf("%d blocks cool, want %d", got, tt.cooling)
				}
				if tt.cooling > 0 {
					i.wantFigures("16", until)
				} else {
					until = time.Time{}
				}
				i.sameAsLedger()
			}
			i.pass(time.Minute)
			i.waitWarm(i.Allocator)
			i.holds(0)
		})
	}
}

// A block that a claim has used cools for its whole time, also if the claim's CREATE got it back while it cooled.
func TestCooldown_BeginsAgainAfterASuccessfulCreate(t *testing.T) {
	for name, free := range map[string]func(i *icebox, b ledger.Block){
		"released": func(i *icebox, b ledger.Block) { i.release(b.Holder.Claim) },
		"taken over, and released": func(i *icebox, b ledger.Block) {
			b = must.Get(i.Retained().HandOver(i.t.Context(), b, successor("web", "uid")))(i.t)
			if !b.Until.IsZero() {
				i.t.Errorf("HandOver = %+v, want the block without an end", b)
			}
			i.release("uid")
		},
		"retained without an end, and released": func(i *icebox, b ledger.Block) {
			if b = i.retain(string(b.Holder.Claim), time.Time{}); !b.Until.IsZero() {
				i.t.Errorf("Retain = %+v, want the block without an end", b)
			}
			i.release(b.Holder.Claim)
		},
		"retained until later, and released": func(i *icebox, b ledger.Block) {
			b = i.retain(string(b.Holder.Claim), i.clock.now().Add(time.Hour))
			must.Do(i.t, i.ReleaseFor(i.t.Context(), b, ledger.CauseCreateFailed))
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIcebox(t)
			i.bind(request("p", "web", 28))
			i.release("web")
			b := i.bind(created("web", 28))
			i.pass(50 * time.Second)
			free(i, b)
			i.wantFigures("16", i.clock.now().Add(time.Minute))
			i.sameAsLedger()
		})
	}
}
