package space

import (
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

func TestRetirees_AreBounded(t *testing.T) {
	var r retirees
	for i := range 3 * retireesKept {
		r.add(ledger.PoolID(fmt.Sprint(i)))
	}
	if n := len(r.recent) + len(r.former); n > 2*retireesKept {
		t.Errorf("%d pools are remembered", n)
	}
	if !r.has(ledger.PoolID(fmt.Sprint(2 * retireesKept))) {
		t.Errorf("fewer than the last %d are remembered", retireesKept)
	}
}
