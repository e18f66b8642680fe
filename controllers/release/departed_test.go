package release

import (
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
)

// Departed workspaces are forgotten after a day without a call of HasDeparted. A workspace for
// which it is called, because it has a block or a hint, is remembered.
func TestDeparted_IsForgotten(t *testing.T) {
	s := newScene(t)
	s.Departed("asked-for")
	const aDay = 10
	for day := range 30 {
		for i := range aDay {
			s.Departed(allocator.ClusterName(fmt.Sprint(day, "/", i)))
		}
		s.clock.SetTime(s.clock.Now().Add(24 * time.Hour))
		if !s.HasDeparted("asked-for") {
			t.Fatalf("HasDeparted = false on day %d for a workspace that is asked for every day", day)
		}
	}
	if n := len(s.departed); n > 2*aDay+1 {
		t.Errorf("%d workspaces are remembered of %d that departed in 30 days, want those of the last two days", n, 30*aDay)
	}
	s.Arrived("asked-for")
	if s.HasDeparted("asked-for") || s.HasDeparted("never-heard-of") {
		t.Error("HasDeparted = true for a workspace that has arrived, or that never departed")
	}
}
