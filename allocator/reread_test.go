package allocator

import (
	"context"
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The limit of a class stops claims at several pools of a domain. One of the pools was drained while the
// watch was cut off, so that the ledger is read again. The claims at the others are still woken when
// their workspace holds less.
func TestReread_KeepsTheWatchOfALimit(t *testing.T) {
	l := newLedger(t)
	ids := []ledger.PoolID{"a", "b", "c"}
	for i, id := range ids {
		p := root(id, fmt.Sprintf("10.0.%d.0/24", i))
		p.Space = ledger.DomainSpace("platform", "d")
		if _, err := l.Pools().Register(t.Context(), p); err != nil {
			t.Fatalf("Register: %v", err)
		}
		l.bind(request(id, "keeps "+string(id), 28))
	}
	l.pool("q", "10.9.0.0/24")
	l.bind(limited(0, 64, request("q", "held", 26)))
	watch := &cutter{Watcher: l.etcd.Client().Watcher}
	woken := make(chan ledger.ClaimID, len(ids))
	client := clientv3.NewCtxClient(context.Background())
	client.KV, client.Watcher = l.etcd.Client().KV, watch
	behind, err := Open(t.Context(), client, Options{Wake: func(h ledger.Holder) { woken <- h.Claim }})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer behind.Close()
	for _, id := range ids {
		behind.Waits().Add(limited(0, 64, request(id, string(id), 26)))
	}
	watch.set(true)
	if err := l.Pools().Drain(t.Context(), "a"); err != nil {
		t.Fatalf("Drain: %v", err)
	}
	b := l.bind(request("c", "unseen", 28))
	if _, err := l.etcd.Client().Compact(t.Context(), b.Revision); err != nil {
		t.Fatalf("etcd Compact: %v", err)
	}
	watch.set(false)
	behind.catchUp(t)
	if len(woken) > 0 {
		t.Fatalf("%s was woken, and its workspace holds as much as before", <-woken)
	}
	l.free("held")
	behind.catchUp(t)
	if len(woken) != 2 {
		t.Errorf("%d claims were woken, want those at b and c", len(woken))
	}
	l.sameAsLedger(behind)
}
