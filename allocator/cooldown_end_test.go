package allocator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
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
	if cooling, ok := errors.AsType[*CoolingError](err); !ok || !cooling.Until.Equal(until) {
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
	if err := i.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	i.pass(time.Hour)
	i.Allocator = i.follower()
	i.pass(0)
	i.waitCooling(i.Allocator, 0)
	i.bind(request("p", "b", 24))
	i.release("b")
	other := i.follower()
	i.pass(i.cooldown)
	i.waitCooling(i.Allocator, 1)
	other.engine.SetLeads(true)
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
		i.release(ClaimID(fmt.Sprint(n)))
	}
	i.sameAsLedger(i.follower())
	i.pass(time.Minute)
	i.waitCooling(i.Allocator, 0)
	if blocks := i.sameAsLedger(); len(blocks) != 0 {
		t.Errorf("%d blocks are left", len(blocks))
	}
}
