package allocator

import (
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Freed room goes to the workspaces in turn, beginning with that of the oldest claim, and
// within one to its oldest. Many old claims of one do not keep the others waiting, and one
// that comes later waits for its turn.
func TestWaiting_WorkspacesTakeTurns(t *testing.T) {
	r := newRoom(t)
	for i := range 16 {
		r.bind(request("p", fmt.Sprint("c", i), 28))
	}
	for i := range 100 {
		r.Waits().Add(since(i, of("hoarder", request("p", fmt.Sprintf("h%02d", i), 28))))
	}
	for i := range 3 {
		r.Waits().Add(since(1000+i, of("quiet", request("p", fmt.Sprint("q", i), 28))))
	}
	r.Waits().Add(since(500, of("exact", exactly(request("p", "e0", 0), "10.0.0.32/28"))))
	freed := func(i int, want ledger.ClaimID) {
		t.Helper()
		r.release(ledger.ClaimID(fmt.Sprint("c", i)))
		r.wantWoken(want)
	}
	freed(0, "h00")
	freed(1, "q0") // the exact one does not fit
	freed(2, "e0") // it was never served
	freed(3, "h01")
	r.Waits().Add(since(2000, of("late", request("p", "l0", 28))))
	freed(4, "q1")
	freed(5, "h02") // the late one begins behind all that wait for their turn
	freed(6, "l0")
	freed(7, "q2")
	freed(8, "h03")
	freed(9, "h04") // nobody else is left
	if n := waiting(r.Allocator, "p"); n != 105 {
		t.Errorf("%d claims wait; want 105, those that room is held for included", n)
	}
}
