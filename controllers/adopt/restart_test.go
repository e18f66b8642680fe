package adopt

import (
	"errors"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

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
