package allocator

import (
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A group of calls on many spaces puts the head of each space, too. These puts count towards the limit of operations in
// a transaction. Otherwise etcd would refuse the transaction as too large, and later groups would be smaller.
func TestBind_FitsManyPoolsIntoOneTransaction(t *testing.T) {
	const many = 1100
	l := newLedger(t)
	for n := range many {
		l.pool(ledger.PoolID(fmt.Sprint("p", n)), fmt.Sprintf("10.%d.%d.0/24", n/256, n%256))
	}
	before := l.engine.Limit.Load()
	binds := make([]func(), many)
	for n := range many {
		binds[n] = func() { l.bind(request(ledger.PoolID(fmt.Sprint("p", n)), fmt.Sprint("c", n), 32)) }
	}
	l.grouped(binds[0], binds[1:]...)
	if now := l.engine.Limit.Load(); now != before {
		t.Errorf("a transaction was too large: groups have %d operations now, and had %d", now, before)
	}
	l.holds(many)
}
