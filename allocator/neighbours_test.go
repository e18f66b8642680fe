package allocator

import "testing"

// A block stays in dispute if another that overlaps it comes while its last rival is released.
func TestDispute_RefusesANewNeighbour(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/16")
	came := false
	kv := &writtenKV{KV: l.etcd.Client().KV, write: func() {
		if !came {
			came = true
			l.adopt("third", "10.0.0.0/29", Bound)
		}
	}}
	l.bind(exactly(request("p", "first", 0), "10.0.0.0/28"))
	l.adopt("around", "10.0.0.0/27", Bound)
	busy := &fixture{Allocator: l.through(kv, l.etcd.Client().Watcher), t: t, etcd: l.etcd}
	busy.free("around")
	if b, ok, err := busy.Lookup(t.Context(), "first"); err != nil || !ok || b.State != Disputed || !came {
		t.Errorf("Lookup = %s, %t, %v; want it disputed, as another has come: %t", b.State, ok, err, came)
	}
	l.sameAsLedger(busy.Allocator)
}
