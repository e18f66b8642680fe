package engine

import (
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// The space that ends comes before the pool that takes over its changes, and the one that begins before both, however a
// map orders them.
func TestInTurn(t *testing.T) {
	head := func(put bool) []*store.Entry {
		return []*store.Entry{{Key: store.Key{Kind: store.BlockKey}}, {Key: store.Key{Kind: store.HeadKey}, Put: put}}
	}
	of := map[ledger.SpaceID][]*store.Entry{"begins": head(true), "ends": head(false), "pool": head(true)}
	want := []ledger.SpaceID{"begins", "ends", "pool"}
	for range 50 { // each in another order of the map
		if got := inTurn(of, func(id ledger.SpaceID) bool { return id != "begins" }); !slices.Equal(got, want) {
			t.Fatalf("inTurn = %v, want %v", got, want)
		}
	}
}
