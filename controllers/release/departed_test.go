package release

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// Departed workspaces are forgotten after a day without a call of HasDeparted. A workspace for
// which it is called, because it has a block or a hint, is remembered.
func TestDeparted_IsForgotten(t *testing.T) {
	s := newScene(t)
	s.Departed("asked-for")
	const aDay = 10
	for day := range 30 {
		for i := range aDay {
			s.Departed(ledger.ClusterName(fmt.Sprint(day, "/", i)))
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

// A workspace is bound again before anybody has asked for its claims. They went with the former binding,
// and everything is released: neither Retain nor a list that left them out keeps it.
func TestDeparted_AndBoundAgain(t *testing.T) {
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		missed, departs bool
		served          time.Time
		want            []string
	}{
		"seen deleted":                          {served: created.Add(time.Second), departs: true},
		"seen deleted, the binding not seen":    {served: created.Add(time.Second)},
		"missed":                                {served: created.Add(time.Second), departs: true, missed: true},
		"missed, the binding not seen to go":    {served: created.Add(time.Second), missed: true, want: []string{"10.0.0.0/28 bound a"}},
		"made after the binding":                {served: created, departs: true, want: []string{"10.0.0.0/28 retained a"}},
		"made after the binding, and missed":    {served: created, departs: true, missed: true, want: []string{"10.0.0.0/28 bound a"}},
		"on the platform, which has no binding": {want: []string{"10.0.0.0/28 retained a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPromise(t, ipamv1alpha1.ReclaimRetain)
			claim := p.answered("a")
			claim.CreationTimestamp.Time = created
			p.confirm(claim)
			if test.departs {
				p.Departed("w")
				p.Arrived("w")
			}
			if test.missed {
				p.Missed(holderOf(claim), claim)
			} else {
				p.Deleted(holderOf(claim), claim, nil)
			}
			p.oracle.answer = live.Answer{Verdict: live.Gone, Client: p.workspace, Served: test.served}
			if settled, err := p.Settle(t.Context(), holderOf(claim)); err != nil || !settled {
				t.Fatalf("Settle = %t, %v", settled, err)
			}
			p.wantBlocks(test.want...)
			records := &ipamv1alpha1.IPAllocationList{}
			if err := p.workspace.List(t.Context(), records); err != nil {
				t.Fatal(err)
			}
			if retained := slices.Contains(test.want, "10.0.0.0/28 retained a"); len(records.Items) > 0 != retained {
				t.Errorf("there are %d records, want one: %t", len(records.Items), retained)
			}
		})
	}
}

// A claim of the new binding that shows the block has it.
func TestDeparted_AndInherited(t *testing.T) {
	p := newPromise(t, ipamv1alpha1.ReclaimRetain)
	claim := p.answered("a")
	p.confirm(claim)
	p.Deleted(holderOf(claim), claim, nil)
	p.pass(2 * promise.Grace)
	p.oracle.answer = live.Answer{Verdict: live.Gone, Client: p.workspace, Object: p.answered("b"), Served: time.Now()}
	if settled, err := p.Settle(t.Context(), holderOf(claim)); err != nil || !settled {
		t.Fatalf("Settle = %t, %v", settled, err)
	}
	p.wantBlocks("10.0.0.0/28 bound b")
}
