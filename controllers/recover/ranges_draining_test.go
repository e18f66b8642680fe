package recover

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/test/must"
)

// drains binds a block of a pool to the claim c, and drains the pool.
func (l *loss) drains(id ledger.PoolID) {
	l.t.Helper()
	must.Get(l.ledger.Bind(l.t.Context(), ledger.Request{
		Pool: id, Exact: netip.MustParsePrefix("10.0.0.16/28"),
		Holder: ledger.Holder{Claim: "uid-of-c", Cluster: "platform", Namespace: "default", Name: "c"},
	}))(l.t)
	must.Do(l.t, l.ledger.Pools().Drain(l.t.Context(), id))
}

// In the restored ledger a range drains, with a block inside, and its IPPool is being deleted. A claim shows the range,
// and does not get it. The pass fails, so that another pass follows when the pool is gone.
func TestAdopter_FailsWhileARangeDrains(t *testing.T) {
	l := newLoss(t)
	former, _ := l.provisioned()
	l.drains(former.ID)
	l.restart()
	pool, id := l.network("a", "10.0.0.0/24")
	later := former
	later.RegisteredAt = former.RegisteredAt.Add(time.Minute)
	pool.Status.Ledger = &ipamv1alpha1.PoolLedger{ID: l.ledger.Recovery().LedgerID(), Changes: catalog.Changes(later, 1)}
	keep(pool)
	l.record.claims = append(l.record.claims, holds("range", pool, "a"))
	if whole, err := l.Whole(t.Context(), id, pool.Status); err != nil || whole {
		t.Fatalf("Whole = %t, %v; want that the pool is lost", whole, err)
	}
	if _, releasing := errors.AsType[*ledger.ReleasingError](l.pass(t.Context())); !releasing {
		t.Error("the pass ends without a fault; want that the range drains")
	}
	if now, ok := l.ledger.Pools().Get(id); !ok || now.State != ledger.PoolDraining || now.Derived.Holder.Claim != "" {
		t.Errorf("the pool is %+v, %t; want it draining, and held by nobody", now, ok)
	}
}
