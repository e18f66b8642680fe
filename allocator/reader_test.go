package allocator_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// A walk tells all that is there, at one revision, and leaves no trace.
func TestReader_Walk(t *testing.T) {
	etcd := etcdtest.New(t)
	alloc := must.Get(allocator.Open(t.Context(), etcd.Client(), allocator.Options{}))(t)
	defer alloc.Close()
	must.Get(alloc.Pools().Register(t.Context(), ledger.Pool{ID: "p", Cluster: "w", Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/24")}))(t)
	block := must.Get(alloc.Bind(t.Context(), ledger.Request{
		Pool: "p", Length: 28, Holder: ledger.Holder{Claim: "c", Cluster: "w", Namespace: "default", Name: "c"},
	}))(t)
	must.Get(etcd.Client().Put(t.Context(), "/ipam/v1/claims/bad", "{"))(t)

	before := must.Get(etcd.Client().Get(t.Context(), "none"))(t)
	var told []string
	revision, err := allocator.Reader{Client: etcd.Client()}.Walk(t.Context(), ledger.Visitor{
		Pool:  func(p ledger.Pool) { told = append(told, "pool "+string(p.ID)) },
		Block: func(b ledger.Block) { told = append(told, "block "+b.Prefix.String()+" of "+string(b.Holder.Claim)) },
		Head:  func(s ledger.SpaceID) { told = append(told, "head "+string(s)) },
		Claim: func(c ledger.ClaimID, _ ledger.SpaceID, p netip.Prefix) {
			told = append(told, "claim "+string(c)+" at "+p.String())
		},
		Tenure: func(h ledger.Tenure) {
			told = append(told, "tenure "+h.Prefix.String()+" of "+string(h.Holder.Claim))
		},
		Unread:  func(s ledger.SpaceID, p netip.Prefix) { told = append(told, "unread "+p.String()) },
		Damaged: func(key string, _ error) { told = append(told, "damaged "+key) },
	})
	if err != nil || revision != before.Header.Revision {
		t.Errorf("walk = %d, %v; want revision %d", revision, err, before.Header.Revision)
	}
	want := []string{
		"pool p", "block 10.0.0.0/28 of c", "head " + string(block.Space),
		"damaged /ipam/v1/claims/bad", "claim c at 10.0.0.0/28",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
