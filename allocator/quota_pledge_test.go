package allocator

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A limit has room for one of two claims, which is held for the first. When that does not take it,
// whatever the way, the second is woken.
func TestQuota_AHoldThatEndsUnused(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*room) error
		want []ledger.ClaimID
	}{
		"withdrawn": {func(r *room) error {
			r.Waits().Withdraw("first")
			return nil
		}, []ledger.ClaimID{"second"}},
		"bound elsewhere": {func(r *room) error {
			_, err := r.Bind(r.t.Context(), request("q", "first", 26))
			return err
		}, []ledger.ClaimID{"second"}},
		"over": {func(r *room) error {
			r.clock.advance(defaultHoldTime)
			return nil
		}, []ledger.ClaimID{"first", "second"}},
		"excluded": {func(r *room) error {
			return r.Pools().Exclude(r.t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/26")})
		}, []ledger.ClaimID{"first", "second"}},
		"bound by another allocator": {func(r *room) error {
			_, err := r.open().Bind(r.t.Context(), of("other", exactly(request("p", "faster", 0), "10.0.0.0/26")))
			return err
		}, []ledger.ClaimID{"first", "second"}},
	} {
		for _, limits := range [][2]int64{{64, 0}, {0, 64}} {
			t.Run(name, func(t *testing.T) {
				r := newRoom(t)
				r.pool("q", "10.1.0.0/24")
				r.bind(limited(limits[0], limits[1], request("p", "held", 26)))
				r.Waits().Add(since(1, limited(limits[0], limits[1], request("p", "first", 26))))
				r.Waits().Add(since(2, limited(limits[0], limits[1], request("p", "second", 27))))
				r.release("held")
				r.wantWoken("first")
				if err := tt.end(r); err != nil {
					t.Fatalf("the hold does not end: %v", err)
				}
				r.wantWoken(tt.want...)
				r.sameAsLedger()
			})
		}
	}
}

// The oldest claim that the limit of a class stopped has no room when the workspace holds less. A
// younger and smaller one has, and is woken, too.
func TestQuota_TheOldestHasNoRoom(t *testing.T) {
	r := newRoom(t)
	r.pool("q", "10.1.0.0/24")
	r.bind(limited(0, 128, request("q", "held", 25)))
	r.bind(of("other", request("p", "a", 25)))
	r.bind(of("other", request("p", "b", 26)))
	r.Waits().Add(since(1, limited(0, 128, request("p", "large", 25))))
	r.Waits().Add(since(2, limited(0, 128, request("p", "small", 28))))
	r.wantWoken()
	r.release("held")
	r.wantWoken("large", "small")
	r.bind(limited(0, 128, request("p", "small", 28)))
	r.sameAsLedger()
}

// Another allocator takes the room of a hold while its claim is bound. The claim then has no room,
// and the limit has some for the next one.
func TestQuota_AHoldIsLostWhileBinding(t *testing.T) {
	r := newRoom(t)
	r.pool("q", "10.1.0.0/24")
	other := r.open()
	r.bind(limited(0, 128, request("q", "held", 25)))
	r.Waits().Add(since(1, limited(0, 128, request("p", "first", 25))))
	r.Waits().Add(since(2, limited(0, 128, request("p", "second", 26))))
	r.release("held")
	r.wantWoken("first")
	r.swap(func(h *engine.Hooks) {
		h.BeforeCommit = first(func() {
			for i, p := range []string{"10.0.0.128/26", "10.0.0.0/26"} { // the second is in the hold, which ends
				if _, err := other.Bind(t.Context(), of("other", exactly(request("p", fmt.Sprint("other", i), 0), p))); err != nil {
					t.Errorf("Bind of %s: %v", p, err)
				}
			}
		})
	})
	r.refused(limited(0, 128, request("p", "first", 25)))
	r.wantWoken("second")
	r.sameAsLedger(other)
}
