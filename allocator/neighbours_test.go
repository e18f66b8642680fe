package allocator

import (
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A block stays in dispute if another that overlaps it comes while its last rival is released.
func TestDispute_RefusesANewNeighbour(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/16")
	came := false
	kv := &writtenKV{l.etcd.Client().KV, "/head", func() {
		if !came {
			came = true
			l.adopt("third", "10.0.0.0/29", ledger.Bound)
		}
	}}
	l.bind(exactly(request("p", "first", 0), "10.0.0.0/28"))
	l.adopt("around", "10.0.0.0/27", ledger.Bound)
	busy := &fixture{Allocator: l.through(kv, l.etcd.Client().Watcher), t: t, etcd: l.etcd}
	busy.free("around")
	if b, ok, err := busy.Lookup(t.Context(), "first"); err != nil || !ok || b.State != ledger.Disputed || !came {
		t.Errorf("Lookup = %s, %t, %v; want it disputed, as another has come: %t", b.State, ok, err, came)
	}
	l.sameAsLedger(busy.Allocator)
}

// A block that others change while a neighbour is released or adopted keeps that change, even where as many blocks as
// before are there.
func TestDispute_RefusesAChangedNeighbour(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*fixture)
		op     func(*fixture)
		want   []string
	}{
		"a rival comes, and a neighbour is released": {
			func(l *fixture) { l.adopt("rival", "10.0.0.0/28", ledger.Bound) },
			func(busy *fixture) { busy.free("around") },
			[]string{"10.0.0.0/28 [first rival] disputed"},
		},
		"a block is retained, and a neighbour is adopted": {
			func(l *fixture) {
				l.free("around")
				l.adopt("another", "10.0.0.16/28", ledger.Retained)
			},
			func(busy *fixture) { busy.adopt("all", "10.0.0.0/26", ledger.Bound) },
			[]string{"10.0.0.0/26 [all] disputed", "10.0.0.0/28 [first] disputed", "10.0.0.16/28 [another] disputed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			l.pool("p", "10.0.0.0/16")
			changed := false
			kv := &writtenKV{l.etcd.Client().KV, "/head", func() {
				if !changed {
					changed = true
					tt.change(l)
				}
			}}
			l.bind(exactly(request("p", "first", 0), "10.0.0.0/28"))
			l.adopt("around", "10.0.0.0/27", ledger.Bound)
			busy := &fixture{Allocator: l.through(kv, l.etcd.Client().Watcher), t: t, etcd: l.etcd}
			tt.op(busy)
			var got []string
			for _, b := range busy.sameAsLedger(l.Allocator) {
				got = append(got, fmt.Sprint(b.Prefix, " ", b.Claims, " ", b.State))
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) || !changed {
				t.Errorf("the ledger has %v, want %v, as the change has come: %t", got, tt.want, changed)
			}
		})
	}
}
