package space

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

func held(pool ledger.PoolID) owner {
	return ownerOf(store.Record{Held: &store.Holding{Pool: pool, Cluster: "w", Class: "c"}})
}

// A block counts for its pool until it is removed. To remove it again changes nothing.
func TestBlocks_CountForTheirPool(t *testing.T) {
	b, prefix, other := newBlocks(), netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.0.1.0/24")
	b.add(other, held("p"))
	b.add(prefix, held("q"))
	if b.Len() != 2 || b.count["p"] != 1 || b.count["q"] != 1 {
		t.Errorf("%d blocks, by pool %v; want 2, of each pool 1", b.Len(), b.count)
	}
	b.drop(prefix)
	b.drop(prefix)
	if b.Len() != 1 || b.count["p"] != 1 || b.count["q"] != 0 {
		t.Errorf("%d blocks, by pool %v; want that of p alone", b.Len(), b.count)
	}
}

// A block counts for the account of its pool, and for that of its class.
func TestOwner_CountsForPoolAndClass(t *testing.T) {
	got := map[Account]int{}
	for a := range held("p").Value().accounts() {
		got[a]++
	}
	want := map[Account]int{{pool: "p", Cluster: "w"}: 1, {Class: "c", Cluster: "w"}: 1}
	if !maps.Equal(got, want) {
		t.Errorf("accounts() = %v, want %v", got, want)
	}
}
