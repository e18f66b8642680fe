package space

import (
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

func TestRecent_IsBounded(t *testing.T) {
	var r recent[ledger.PoolID]
	for i := range 3 * recentKept {
		r.Add(ledger.PoolID(fmt.Sprint(i)))
	}
	if n := len(r.now) + len(r.former); n > 2*recentKept {
		t.Errorf("%d IDs are remembered", n)
	}
	if !r.Has(ledger.PoolID(fmt.Sprint(2 * recentKept))) {
		t.Errorf("fewer than the last %d are remembered", recentKept)
	}
}
