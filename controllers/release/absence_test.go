package release

import (
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

func TestSettle_ABindingInBetweenStartsOver(t *testing.T) {
	s := newScene(t)
	s.settle(t, live.Unbound)
	s.Arrived("w")
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	if s.settle(t, live.Unbound) || s.ledger.released {
		t.Error("freed at the first look after the workspace was bound again")
	}
}

// A shard may be started again more than once. A server that shows the claim in between shows that its workspace is bound, though no census
// was taken then.
func TestSettle_ALookInBetweenStartsOver(t *testing.T) {
	s := newScene(t)
	s.settle(t, live.Unbound)
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	s.settle(t, live.Alive)
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	if s.settle(t, live.Unbound) || s.ledger.released {
		t.Error("freed at the first look after a server has shown the claim")
	}
	s.served(s.holder.Cluster, s.clock.Now().Add(-time.Second)) // by a read that began before
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	if !s.settle(t, live.Unbound) || !s.ledger.released {
		t.Error("not freed at the second look after that")
	}
}
