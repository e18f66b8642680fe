package adopt

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
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

// What a claim was promised is adopted from its status, as long as it has no record. Where the
// ledger still has the reservation, that becomes its block.
func TestPass_APromise(t *testing.T) {
	l := newLoss(t)
	promised, reserved := gen.Claim("a"), gen.Claim("b")
	for claim, cidr := range map[*ipamv1alpha1.IPClaim]string{promised: "10.0.0.0/28", reserved: "10.0.0.16/28"} {
		claim.Status.AllocatedCIDR, claim.Status.PoolRef = cidr, &ipamv1alpha1.PoolRef{Name: "p"}
		l.record.claims = append(l.record.claims, claim)
	}
	pool := gen.Pool("p")
	id := ledger.PoolID(pool.UID)
	if _, err := l.ledger.Pools().Register(t.Context(), ledger.Pool{ID: id, Cluster: "platform", Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/16")}); err != nil {
		t.Fatal(err)
	}
	l.ledger.Recovery().Trust(id)
	_, err := l.ledger.Reservations().Reserve(t.Context(), ledger.Request{
		Pool: id, Exact: netip.MustParsePrefix("10.0.0.16/28"),
		Holder: ledger.Holder{Claim: promise.Of("platform", reserved), Cluster: "platform", Namespace: "default", Name: "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.restart()
	if l.whole(l.had(pool, "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9)) {
		t.Fatal("a ledger that is behind passes for whole")
	}
	if err := l.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[ledger.ClaimID]string{"uid-of-a": "10.0.0.0/28 bound", "uid-of-b": "10.0.0.16/28 bound"}
	if got := l.blocks(); !maps.Equal(got, want) {
		t.Errorf("the ledger has %v, want %v", got, want)
	}
}
