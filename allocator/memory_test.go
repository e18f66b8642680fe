package allocator

import (
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// registerIn registers a pool in the address domain d.
func (l *fixture) registerIn(id ledger.PoolID, cidr string) {
	l.t.Helper()
	must.Get(l.Pools().Register(l.t.Context(), member(id, cidr)))(l.t)
}

// A pool that is registered over the blocks of a pool whose record cannot be read has the prefixes of these blocks as
// taken.
func TestRegister_TakesTheBlocksOfAnUnreadablePool(t *testing.T) {
	l := newLedger(t)
	l.registerIn("p", "10.0.0.0/24")
	l.registerIn("q", "10.1.0.0/24")
	for _, claim := range []string{"one", "two"} {
		l.bind(request("p", claim, 28))
	}
	record, ok := l.Pools().Get("p")
	if !ok {
		t.Fatal("pool p is not known")
	}
	l.put("pools/p", unreadable["newer"])
	l.put("spaces/"+string(record.Space)+"/blocks/010.000.000.032-28", unreadable["newer"])
	over := record
	over.ID, over.Name, over.CIDR = "r", "r", prefix("10.0.0.0/26")
	l.put("pools/r", store.EncodePool(over)) // as the newer program registers it
	l.putHeld(record.Space, request("p", "three", 28), "10.0.0.32/28")
	l.again()
	l.gets(request("r", "four", 28), "10.0.0.48/28")
}
