package pool

import (
	"context"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
)

// disputed is a ledger with one child pool, whose dispute may be over.
type disputed struct {
	views.Pools
	views.Recovery
	child ledger.Pool
	asked []ledger.PoolID
}

func (d *disputed) Get(ledger.PoolID) (ledger.Pool, bool)                        { return d.child, true }
func (d *disputed) Exclude(context.Context, ledger.PoolID, []netip.Prefix) error { return nil }
func (d *disputed) Trust(ledger.PoolID)                                          {}
func (d *disputed) EndDispute(_ context.Context, id ledger.PoolID) error {
	d.asked = append(d.asked, id)
	return nil
}

// whole is a published record. The ledger has lost nothing of it.
type whole struct{}

func (whole) Whole(context.Context, ledger.PoolID, ipamv1alpha1.IPPoolStatus) (bool, error) {
	return true, nil
}

// The ledger wakes a pool when the dispute over its block ends. The pool then allocates again.
func TestEnter_EndsADispute(t *testing.T) {
	pool := gen.Pool("child", gen.ChildOf("p", 24))
	d := &disputed{child: ledger.Pool{ID: "child", CIDR: netip.MustParsePrefix("10.0.0.0/24"), Space: ledger.SpaceID(pool.UID), Parent: "p", Disputed: true}}
	p := &pass{Reconciler: &Reconciler{Options: Options{Ledger: views.Ledger{Pools: d, Recovery: d}, Adoption: whole{}}}, pool: pool, id: "child"}
	if err := p.enter(t.Context()); err != nil || len(d.asked) != 1 || d.asked[0] != "child" {
		t.Errorf("enter = %v, and EndDispute was called for %v; want nil, and for the child once", err, d.asked)
	}
}

// trusting notes which pools are trusted.
type trusting struct {
	views.Recovery
	trusted map[ledger.PoolID]bool
}

func (l trusting) Trust(id ledger.PoolID) { l.trusted[id] = true }

// The other pools of an address domain do not wait for one that cannot be read.
func TestReconcile_OfAPoolThatCannotBeRead(t *testing.T) {
	t.Parallel()
	p, _ := newEntered(t, ledger.Pool{Space: ledger.DomainSpace("w", "d")})
	noting := trusting{p.Ledger.Recovery, map[ledger.PoolID]bool{}}
	p.Ledger.Recovery, p.odd = noting, &outcome.Fault{Message: "odd"}
	if err := p.reconcile(t.Context()); err != nil {
		t.Errorf("reconcile = %v, want nil until the pool is changed", err)
	}
	if !meta.IsStatusConditionFalse(p.pool.Status.Conditions, ipamv1alpha1.ConditionInUse) {
		t.Errorf("the empty pool has the conditions %v, want InUse=False so that it can be deleted", p.pool.Status.Conditions)
	}
	if !noting.trusted[p.id] {
		t.Error("the pool keeps its domain frozen, and the ledger lacks nothing of it")
	}
}
