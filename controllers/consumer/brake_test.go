package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Claims come, lose their consumers and go, and nothing stays of them.
func TestBrake_ForgetsWhoIsGone(t *testing.T) {
	t.Parallel()
	b := &brake{}
	at := time.Unix(0, 0)
	for day := range 10 {
		at = at.Add(window + time.Second)
		for i := range 5 {
			b.note("a", types.UID(fmt.Sprint(day, "/", i)), true, at)
		}
		b.note("b", "x", day == 0, at)
	}
	if n := len(b.abandoned["a"]); n != 5 {
		t.Errorf("%d claims count, want those of the last window, 5", n)
	}
	if _, kept := b.abandoned["b"]; kept {
		t.Error("a workspace is remembered that has no abandoned claim")
	}
	if b.free("a", 4, at) || !b.free("a", 5, at) {
		t.Error("the brake does not count the claims of the last window")
	}
}

func TestStops(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	s := &stops{clock: clock}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	wantNamed := func(want int) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatalf("Gather: %v", err)
		}
		named := 0
		for _, f := range families {
			named += len(f.GetMetric())
		}
		if named != want {
			t.Errorf("%d workspaces are named, want %d", named, want)
		}
	}
	s.hold("a")
	s.hold("b")
	s.let("a")
	wantNamed(1)
	clock.SetTime(clock.Now().Add(window + time.Second))
	wantNamed(0)
	for i := range 2 * maxNamed {
		s.hold(ledger.ClusterName(fmt.Sprint(i)))
	}
	wantNamed(maxNamed)
}
