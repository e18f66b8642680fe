package adopt

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A ledger that is behind has a block bound whose claim is gone by now, and whose record is retained.
func TestPass_AnOlderLedgerOfARetainedBlock(t *testing.T) {
	l := newLoss(t)
	pool := gen.Pool("p")
	id := ledger.PoolID(pool.UID)
	if _, err := l.ledger.Pools().Register(t.Context(), ledger.Pool{ID: id, Cluster: "platform", Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/16")}); err != nil {
		t.Fatal(err)
	}
	old := ledger.Request{Pool: id, Holder: ledger.Holder{Claim: "uid-of-r", Cluster: "platform", Namespace: "default", Name: "r"}, Exact: netip.MustParsePrefix("10.0.0.0/28")}
	if _, err := l.ledger.Recovery().Adopt(t.Context(), old, ledger.Bound); err != nil {
		t.Fatal(err)
	}
	until := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	retained := gen.Allocation("r", "p", "10.0.0.0/28", gen.Retained())
	retained.Annotations, retained.Status.Expires = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "r/uid-of-r"}, &until
	l.record.records = []*ipamv1alpha1.IPAllocation{retained}
	l.had(pool, "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9)
	if l.whole(pool) {
		t.Fatal("a ledger that is behind passes for whole")
	}
	if err := l.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, _, err := l.ledger.Lookup(t.Context(), "uid-of-r"); err != nil || b.State != ledger.Retained || !b.Until.Equal(until.Time) {
		t.Errorf("the block is %+v, %v; want it retained until %s, as its record says", b, err, until)
	}
}
