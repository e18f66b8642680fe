package allocator

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Two Allocators have one client. One asks etcd all the time how far its watch is, while that of the other one begins again. The answers
// are not taken for those of the other watch, which would skip the pools that it has not brought yet.
func TestWatch_SkipsNothingBesideAnother(t *testing.T) {
	l := newLedger(t)
	behind, watch := l.behind()
	ctx, cancel := context.WithCancel(t.Context())
	var asks sync.WaitGroup
	defer asks.Wait()
	defer cancel()
	for range 2 {
		asks.Go(func() {
			for ctx.Err() == nil {
				_ = l.engine.RequestProgress(ctx)
			}
		})
	}
	for i := range 8 {
		watch.set(true)
		id := ledger.PoolID(fmt.Sprint("p", i))
		l.pool(id, fmt.Sprintf("10.%d.0.0/24", i))
		watch.set(false)
		behind.catchUp(t)
		if _, known := behind.Pools().Get(id); !known {
			t.Errorf("memory is as of revision %d, and lacks pool %s", behind.Revision(), id)
		}
	}
}
