package allocator

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// first returns a hook that calls do before the first transaction only.
func first(do func()) func(ledger.SpaceID) error {
	var done atomic.Bool
	return func(ledger.SpaceID) error {
		if !done.Swap(true) {
			do()
		}
		return nil
	}
}

// keysWith returns the keys below the ledger's prefix that contain a word.
func (l *fixture) keysWith(word string) []string {
	l.t.Helper()
	resp := must.Get(l.etcd.Client().Get(l.t.Context(), store.DefaultPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly()))(l.t)
	var found []string
	for _, kv := range resp.Kvs {
		if strings.Contains(string(kv.Key), word) {
			found = append(found, string(kv.Key))
		}
	}
	return found
}

// A pool that has drained is retired late, when another pool has its ID. The later pool stays, and so do the cooldowns
// in it.
func TestRetireDrained_LeavesALaterPoolOfTheID(t *testing.T) {
	for name, parent := range map[string]ledger.PoolID{"a root pool": "", "a child": "p"} {
		i := newIcebox(t)
		begin := func() {
			if parent == "" {
				i.pool("again", "192.168.0.0/24")
			} else if _, err := i.carve(parent, "again", 26); err != nil {
				t.Fatalf("carve: %v", err)
			}
			i.bind(request("again", "c", 28))
			i.release("c")
		}
		begin()
		drained, _ := i.table.Find("again")
		must.Do(t, i.Pools().Retire(t.Context(), "again"))
		begin()
		i.Pools().retireDrained(drained)
		if p, ok := i.Pools().Get("again"); !ok || p.State != ledger.PoolOpen {
			t.Errorf("%s is %+v, %t; want it there, and open", name, p, ok)
		}
		if b, err := i.store.BlockOf(t.Context(), "c"); err != nil || b.State != ledger.Cooling {
			t.Errorf("%s: the block that cooled in it is %+v, %v; want it to cool", name, b, err)
		}
	}
}
