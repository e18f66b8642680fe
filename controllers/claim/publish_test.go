package claim

import (
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The ledger learns the reclaim policy of a claim also while its pool cannot be named, as the workspace has gone that owns it.
func TestReconcile_KeepsThePolicyOfAClaimWhosePoolHasNoPath(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	must.Get(s.ledger.Pools().Register(t.Context(), ledger.Pool{
		ID: "shared", Cluster: "gone", Name: "shared", CIDR: netip.MustParsePrefix("10.1.0.0/24"),
	}))(t)
	claim := gen.Claim("c", gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	holder := ledger.Holder{Claim: ledger.ClaimID(claim.UID), Cluster: "tenant", Namespace: claim.Namespace, Name: claim.Name}
	must.Get(s.ledger.Bind(t.Context(), ledger.Request{Pool: "shared", Holder: holder, Length: 28, Policy: ledger.Delete}))(t)
	s.stored(claim, door.Answer{Status: shows("10.1.0.0/28")})
	if _, err := s.Reconcile(t.Context(), requestIn("tenant", "c")); err == nil {
		t.Error("the reconcile ends well; want it tried again, for the name of the pool")
	}
	block, _, err := s.ledger.Lookup(t.Context(), holder.Claim)
	if err != nil || block.Policy != ledger.Retain {
		t.Errorf("the block is kept with %q, %v; want the Retain of its claim", block.Policy, err)
	}
}
