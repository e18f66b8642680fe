package allocator

import (
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A workspace is counted the address spaces that it has in pools of others, and the pools for all workspaces that it was the first to
// need, as every replica knows them.
func TestCount_PoolsBesideTheOwn(t *testing.T) {
	l := newLedger(t)
	other := l.open()
	l.pool("p", "10.0.0.0/16")
	l.pool("flat", "10.1.0.0/16")
	p, ok := l.Pools().Get("p")
	if !ok {
		t.Fatal("the pool is not known")
	}
	before := l.Pools().Count(p.Cluster)
	shared := ledger.Pool{Cluster: p.Cluster, Name: "net-a", Derived: &ledger.Derived{Class: "net", Scope: network("a"), By: "first"}}
	shared = l.provision("p", 24, shared)
	again := *shared.Derived
	again.By = "second"
	l.provision("p", 24, ledger.Pool{Cluster: p.Cluster, Name: "net-a", Derived: &again})
	space, err := l.Derived().Space(t.Context(), "flat", "first", network("a"))
	l.must(err)
	other.catchUp(t)
	for _, a := range []*Allocator{l.Allocator, other, l.open()} {
		if first, second, own := a.Pools().Count("first"), a.Pools().Count("second"), a.Pools().Count(p.Cluster); first != 2 || second != 0 || own != before+2 {
			t.Errorf("counted %d, %d and %d, want 2, 0 and %d", first, second, own, before+2)
		}
	}
	l.must(l.Pools().Retire(t.Context(), space.ID))
	l.must(l.Pools().Retire(t.Context(), shared.ID))
	if n := l.Pools().Count("first"); n != 0 {
		t.Errorf("counted %d when they are gone, want 0", n)
	}
}
