package allocator

import (
	"context"
	"net/netip"
	"runtime"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// lead makes an Allocator the leader until the test ends, and returns what ends that.
func (l *fixture) lead(a *Allocator, at string) (end func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Lead(ctx, at); err != nil {
			l.t.Errorf("Lead = %v, want nil", err)
		}
	}()
	end = func() { cancel(); <-ended }
	l.t.Cleanup(end)
	return end
}

// ledBy waits until an Allocator knows where the leader answers.
func (l *fixture) ledBy(a *Allocator, at string) {
	l.t.Helper()
	for a.Leader() != at {
		if l.t.Context().Err() != nil {
			l.t.Fatalf("the leader is at %q, want %q", a.Leader(), at)
		}
		runtime.Gosched()
	}
}

// Every Allocator knows the leader: one that was open before, and one that is opened later.
func TestLead_IsKnownToAll(t *testing.T) {
	l := newLedger(t)
	other := l.open()
	if at := other.Leader(); at != "" {
		t.Errorf("before there is a leader it is at %q, want nowhere", at)
	}
	end := l.lead(l.Allocator, "10.0.0.1:9443")
	l.ledBy(other, "10.0.0.1:9443")
	l.ledBy(l.open(), "10.0.0.1:9443")
	end()
	l.lead(other, "10.0.0.2:9443")
	l.ledBy(l.Allocator, "10.0.0.2:9443")
}

// An address that a former leader put late does not stay, nor does an unreadable one.
func TestLead_PutsItsAddressAgain(t *testing.T) {
	l := newLedger(t)
	l.lead(l.Allocator, "10.0.0.1:9443")
	l.ledBy(l.Allocator, "10.0.0.1:9443")
	for _, value := range []string{store.EncodeLeader("10.0.0.2:9443"), "{", `{"v":9}`} {
		l.put("replicas/leader", value)
		l.catchUp(t)
		l.ledBy(l.Allocator, "10.0.0.1:9443")
	}
}

// A claim that waits, for a taken address or a length that does not fit, keeps no Allocator from reserving free room.
func TestReserve_TakesRoomAWaiterCannotUse(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	other := l.open()
	l.lead(l.Allocator, "")
	taken := request("p", "taken", 28)
	taken.Exact = l.bind(request("p", "holds", 28)).Prefix
	l.Waits().Add(taken)
	l.Waits().Add(request("p", "large", 24))
	other.catchUp(t)
	for name, a := range map[string]*Allocator{"leader": l.Allocator, "standby": other} {
		if _, err := a.Reservations().Reserve(t.Context(), reservation(name, 28)); err != nil {
			t.Errorf("Reserve by the %s = %v, want a block", name, err)
		}
	}
	other.catchUp(t)
	l.sameAsLedger(other)
}

// What former versions of this program put beside today's keys means nothing, and is not damaged.
func TestLead_IgnoresFormerKeys(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	for _, key := range []string{"spaces/p/waiters", "turns/p", "turns/gone"} {
		l.put(key, `{"v":9}`)
	}
	other := l.open()
	l.lead(other, "10.0.0.1:9443")
	for name, a := range map[string]*Allocator{"open": l.Allocator, "opened": other} {
		if _, err := a.Reservations().Reserve(t.Context(), reservation(name, 28)); err != nil {
			t.Errorf("Reserve by the one that was %s = %v, want a block", name, err)
		}
	}
	damaged := func(key string, err error) { t.Errorf("%s cannot be read: %v", key, err) }
	if _, err := (Reader{Client: l.etcd.Client()}).Walk(t.Context(), ledger.Visitor{
		Pool: func(ledger.Pool) {}, Block: func(ledger.Block) {}, Head: func(ledger.SpaceID) {}, Claim: func(ledger.ClaimID, ledger.SpaceID, netip.Prefix) {}, Tenure: func(ledger.Tenure) {}, Damaged: damaged, Unread: func(ledger.SpaceID, netip.Prefix) {},
	}); err != nil {
		t.Errorf("Walk = %v", err)
	}
	l.sameAsLedger(other)
}
