package allocator

import (
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// releasingUntil returns the time that Begin has set; zero: the pool is open, or is gone.
func releasingUntil(a *Allocator, id ledger.PoolID) time.Time {
	if p, ok := a.Pools().Get(id); ok {
		return p.Derived.Releasing
	}
	return time.Time{}
}

// Reopen names the closing that it ends. It does not end a later one.
func TestReopen_LeavesALaterRelease(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	d, until := l.Derived(), time.Now().Add(time.Minute)
	p := l.provision("p", 24, held("a"))
	for i, first := range []bool{true, false} {
		if got := must.Get(d.Begin(t.Context(), p.ID, "range", until.Add(time.Duration(i)*time.Second)))(t); got != first {
			t.Errorf("Begin number %d says that it is the first: %t", i+1, got)
		}
	}
	must.Be(t, d.Reopen(t.Context(), p.ID, until), ledger.ErrChanged)
	if now, _ := l.Pools().Get(p.ID); !now.Closed() {
		t.Error("the later release has ended")
	}
	for range 2 {
		must.Do(t, d.Reopen(t.Context(), p.ID, until.Add(time.Second)))
	}
	l.bind(request(p.ID, "endpoint", 32))
}
