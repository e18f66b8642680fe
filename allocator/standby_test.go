package allocator

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// An Allocator that etcd has refused once is healthy again when etcd takes transactions, though it has none to send.
func TestHealthy_AgainWithoutAnotherTransaction(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	l.swap(func(h *engine.Hooks) { h.BeforeCommit = once(rpctypes.ErrTooManyRequests) })
	if _, err := l.Bind(t.Context(), request("p", "c", 26)); !errors.Is(err, ledger.ErrUnavailable) {
		t.Fatalf("Bind = %v, want %v", err, ledger.ErrUnavailable)
	}
	if l.Healthy() == nil {
		t.Error("healthy right after etcd has refused a transaction")
	}
	for l.Healthy() != nil && t.Context().Err() == nil {
		runtime.Gosched() // the next probe
	}
}

// A bind that was planned with a former block, and does not get it, begins its tenure when it is bound.
func TestBind_WithoutTheFormerBlockThatWasPlanned(t *testing.T) {
	l := newLedger(t, func(o *Options) {
		o.History, o.Cooldown = time.Hour, func(ledger.Block) (time.Duration, error) { return time.Hour, nil }
	})
	l.pool("p", "10.0.0.0/24")
	other := &fixture{Allocator: l.open(), t: t, etcd: l.etcd}
	l.bind(request("p", "c", 28))
	l.free("c")
	taken := false
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(ledger.SpaceID) error {
			if !taken {
				taken = true
				again := request("p", "c", 28)
				again.Holder.Claim = "other"
				other.bind(again) // gets the former block
			}
			return nil
		}
	})
	again := request("p", "c", 28)
	again.Holder.Claim = "late"
	if b := l.bind(again); !b.Since.IsZero() {
		t.Errorf("the tenure of %s begins at %s, want at the bind", b.Prefix, b.Since)
	}
}

// Preview changes nothing: a claim that room is held for keeps its place and its room.
func TestPreview_OfAClaimThatRoomIsHeldFor(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/28")
	full := l.bind(request("p", "full", 28))
	l.Waits().Add(request("p", "waits", 28))
	l.free("full")
	for range 2 {
		if got, err := l.Reservations().Preview(t.Context(), request("p", "waits", 28)); err != nil || got != full.Prefix {
			t.Errorf("Preview = %s, %v; want %s, which is held", got, err, full.Prefix)
		}
	}
	var exhausted *ledger.ExhaustedError
	if _, err := l.Bind(t.Context(), request("p", "newcomer", 28)); !errors.As(err, &exhausted) {
		t.Errorf("Bind of a newcomer after Preview = %v, want an ExhaustedError", err)
	}
	l.bind(request("p", "waits", 28))
}
