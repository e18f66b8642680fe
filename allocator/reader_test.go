package allocator_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
)

// A walk tells all that is there, at one revision, and leaves no trace.
func TestReader_Walk(t *testing.T) {
	etcd := etcdtest.New(t)
	ledger, err := allocator.Open(t.Context(), etcd.Client(), allocator.Options{})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer ledger.Close()
	if _, err := ledger.Register(t.Context(), allocator.Pool{ID: "p", Cluster: "w", Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/24")}); err != nil {
		t.Fatalf("Register: %v", err)
	}
	block, err := ledger.Bind(t.Context(), allocator.Request{
		Pool: "p", Length: 28, Holder: allocator.Holder{Claim: "c", Cluster: "w", Namespace: "default", Name: "c"},
	})
	if err != nil {
		t.Fatalf("Bind: %v", err)
	}
	if _, err := etcd.Client().Put(t.Context(), "/ipam/v1/claims/bad", "{"); err != nil {
		t.Fatalf("etcd Put: %v", err)
	}

	before, err := etcd.Client().Get(t.Context(), "none")
	if err != nil {
		t.Fatalf("etcd Get: %v", err)
	}
	var told []string
	revision, err := allocator.Reader{Client: etcd.Client()}.Walk(t.Context(), allocator.Visitor{
		Pool:  func(p allocator.Pool) { told = append(told, "pool "+string(p.ID)) },
		Block: func(b allocator.Block) { told = append(told, "block "+b.Prefix.String()+" of "+string(b.Holder.Claim)) },
		Head:  func(s allocator.SpaceID) { told = append(told, "head "+string(s)) },
		Claim: func(c allocator.ClaimID, _ allocator.SpaceID, p netip.Prefix) {
			told = append(told, "claim "+string(c)+" at "+p.String())
		},
		Tenure: func(h allocator.Tenure) {
			told = append(told, "tenure "+h.Prefix.String()+" of "+string(h.Holder.Claim))
		},
		Unread:  func(s allocator.SpaceID, p netip.Prefix) { told = append(told, "unread "+p.String()) },
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
