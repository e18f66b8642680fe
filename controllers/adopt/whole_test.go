package adopt

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
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

// A pass that cannot go on is taken up by the next process, which finds the pools lost,
// also those that the former one has registered again: nothing is allocated in between.
func TestPass_TakenUpByAnotherProcess(t *testing.T) {
	l := newLoss(t)
	root := l.had(gen.Pool("p"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 7)
	child := l.had(gen.Pool("k", gen.ChildOf("p", 24)), "10.0.9.0/24", l.ledger.Recovery().LedgerID(), 1)
	bound := gen.Allocation("a", "p", "10.0.4.0/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{bound}
	world, err := l.survey(t.Context())
	if err == nil {
		err = world.enter(t.Context()) // and no further: the records cannot be read
	}
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		l.restart()
		for _, pool := range []*ipamv1alpha1.IPPool{root, child} {
			id := ledger.PoolID(pool.UID)
			l.ledger.Recovery().Trust(id)
			if l.whole(pool) || !l.ledger.Recovery().Frozen(id) {
				t.Errorf("round %d: pool %s is whole or not frozen, and its blocks are missing", round, pool.Name)
			}
			holder := ledger.Holder{Claim: "new", Cluster: "platform", Namespace: "default", Name: "new"}
			b, err := l.ledger.Bind(t.Context(), ledger.Request{Pool: id, Holder: holder, Length: 28})
			if _, frozen := errors.AsType[*ledger.FrozenError](err); !frozen {
				t.Errorf("round %d: pool %s answers Bind with %v, %v; want it frozen", round, pool.Name, b.Prefix, err)
			}
		}
	}
	if err := l.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{bound: "10.0.4.0/28 bound"})
	if !l.whole(root) || !l.whole(child) || l.ledger.Recovery().Frozen("uid-of-p") || l.ledger.Recovery().Frozen("uid-of-k") {
		t.Error("the pools are not whole after the pass")
	}
}
