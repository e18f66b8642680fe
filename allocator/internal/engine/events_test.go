package engine

import (
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// inTurn returns a space that begins first, then a space that ends, then the space of their pool, whatever the order of
// the map.
func TestInTurn_EndsASpaceBeforeThePoolAbove(t *testing.T) {
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
