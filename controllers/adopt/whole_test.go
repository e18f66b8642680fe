package adopt

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/gen"
)

func TestWhole(t *testing.T) {
	l := newLoss(t)
	if !l.whole(gen.Pool("new")) {
		t.Error("a pool that never had a CIDR was lost")
	}
	if before := l.had(gen.Pool("before"), "10.0.0.0/16", "", 0); l.whole(before) {
		t.Error("a pool that has a CIDR, and is not in the ledger, was not lost")
	}
}

// A pool that retires is in the record until its finalizer is off, and in caches longer.
// Were it taken for lost, its block would be carved again, for nobody.
func TestWhole_WhileAPoolRetires(t *testing.T) {
	for _, test := range []struct {
		name   string
		before bool // it is retired before it is looked for
	}{{"before it is looked for", true}, {"once it was found", false}} {
		t.Run(test.name, func(t *testing.T) {
			l := newLoss(t)
			retiring := l.had(gen.Pool("retiring"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 1)
			id := ledger.PoolID(retiring.UID)
			record := ledger.Pool{ID: id, Cluster: "platform", Name: "retiring", CIDR: netip.MustParsePrefix("10.0.0.0/16")}
			if _, err := l.ledger.Pools().Register(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			other, err := allocator.Open(t.Context(), l.etcd.Client(), allocator.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := other.Close(); err != nil {
					t.Error(err)
				}
			})
			retire := sync.OnceFunc(func() {
				if err := other.Pools().Retire(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
			if test.before {
				retire()
			}
			l.lacks = func(ctx context.Context, id ledger.PoolID, changes int64) (bool, error) {
				retire() // another replica does, while the pool is compared with the record
				return l.ledger.Recovery().Behind(ctx, id, changes)
			}
			if !l.whole(retiring) {
				t.Error("a pool that another replica has retired is taken for lost")
			}
		})
	}
}
