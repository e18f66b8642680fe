package claim

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/controllers/directory"
	"github.com/kcp-ipam/ipam/controllers/outcome"
	"github.com/kcp-ipam/ipam/controllers/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A claim waits where it may be served, and nowhere else: of a pool that it may use no
// longer, room would be held for it again and again.
func TestTry_WaitsAtItsCandidatesAlone(t *testing.T) {
	t.Parallel()
	ledger, err := allocator.Open(t.Context(), etcdtest.New(t).Client(), allocator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	var both []resolve.Candidate
	for name, cidr := range map[string]string{"a": "10.0.0.0/24", "b": "10.1.0.0/24"} {
		pool := gen.Pool(name)
		_, err := ledger.Register(t.Context(), allocator.Pool{
			ID: allocator.PoolID(pool.UID), Cluster: "tenant", Name: name, CIDR: netip.MustParsePrefix(cidr),
		})
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, resolve.Candidate{Pool: pool, Length: 23})
	}
	p := &pass{Reconciler: &Reconciler{ledger: ledger}, claim: gen.Claim("c"), from: directory.Workspace{Cluster: "tenant"}}

	for _, candidates := range [][]resolve.Candidate{both, both[1:], nil} {
		_, err := p.try(t.Context(), resolve.Plan{Candidates: candidates})
		if _, refused := errors.AsType[*outcome.Refusal](err); !refused {
			t.Fatal(err)
		}
		for i, c := range both {
			want := 0
			if i >= len(both)-len(candidates) {
				want = 1
			}
			if n := ledger.Waiting(allocator.PoolID(c.Pool.UID)); n != want {
				t.Errorf("with %d candidates %d wait at pool %s, want %d", len(candidates), n, c.Pool.Name, want)
			}
		}
	}
}
