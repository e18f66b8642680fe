package pool

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

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
