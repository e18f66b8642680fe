package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

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
