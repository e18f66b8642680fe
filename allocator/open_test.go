package allocator

import (
	"errors"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// A derived pool that drains with a block inside is opened only while it is frozen, and serves claims again after
// Resume. Any other pool is refused.
func TestOpen_NeedsAFrozenPool(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	made := l.provision("p", 24, ofNetwork("net", "a"))
	l.gets(request(made.ID, "first", 28), "10.0.0.0/28")
	must.Do(t, l.Pools().Drain(t.Context(), made.ID))
	if err := l.Recovery().Open(t.Context(), made.ID); !errors.Is(err, ledger.ErrChanged) {
		t.Errorf("Open of a pool that is not frozen = %v, want %v", err, ledger.ErrChanged)
	}
	must.Do(t, l.Recovery().Freeze(t.Context(), made.ID, time.Time{}))
	must.Do(t, l.Recovery().Open(t.Context(), made.ID))
	must.Do(t, l.Recovery().Resume(t.Context(), made.ID, 0))
	if p, ok := l.Pools().Get(made.ID); !ok || p.State != ledger.PoolOpen || p.Closed() || p.Frozen {
		t.Errorf("the pool is %+v, %t; want it open", p, ok)
	}
	l.gets(request(made.ID, "second", 28), "10.0.0.16/28")
	if err := l.Recovery().Open(t.Context(), "p"); !errors.Is(err, ledger.ErrChanged) {
		t.Errorf("Open of a root pool = %v, want %v", err, ledger.ErrChanged)
	}
}
