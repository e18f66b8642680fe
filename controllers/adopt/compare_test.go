package adopt

import (
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// shown is a manager of one cluster, whose cache shows some pools.
// A replica that does not lead trusts a space when the ledger has all that the status of each of
// its pools speaks of. It writes nothing.
func TestCompare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(l *loss, first, second *ipamv1alpha1.IPPool)
		want   bool
	}{
		{"all is there", func(*loss, *ipamv1alpha1.IPPool, *ipamv1alpha1.IPPool) {}, true},
		{"changes are lost", func(_ *loss, first, _ *ipamv1alpha1.IPPool) { first.Status.Ledger.Changes = 1000 }, false},
		{"changes of another pool of the space are lost", func(_ *loss, _, second *ipamv1alpha1.IPPool) { second.Status.Ledger.Changes = 1000 }, false},
		{"another ledger", func(_ *loss, _, second *ipamv1alpha1.IPPool) { second.Status.Ledger.ID = "lost" }, false},
		{"another pool of that name", func(_ *loss, first, _ *ipamv1alpha1.IPPool) { first.UID = "another" }, false},
		{"a spec that nobody has followed yet", func(_ *loss, first, _ *ipamv1alpha1.IPPool) { first.Generation++ }, false},
		{"frozen in the ledger", func(l *loss, first, _ *ipamv1alpha1.IPPool) {
			if err := l.ledger.Recovery().Freeze(l.t.Context(), ledger.PoolID(first.UID)); err != nil {
				l.t.Fatal(err)
			}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLoss(t)
			first, second := l.shares("first", "10.0.0.0/24"), l.shares("second", "10.0.0.0/16")
			id := ledger.PoolID(first.UID)
			tt.change(l, first, second)
			l.Clusters = testbed.Clusters{"": testbed.NewWorkspace(t, first, second)}
			before := l.revision()
			if whole, err := l.Compare(t.Context(), id); err != nil || whole != tt.want {
				t.Errorf("Compare = %t, %v, want %t", whole, err, tt.want)
			}
			_, err := l.ledger.Reservations().Reserve(t.Context(), ledger.Request{
				Pool: id, Length: 28, Holder: ledger.Holder{Claim: ledger.ReservationID("w", "c"), Cluster: "w", Namespace: "default", Name: "c"},
			})
			if (err == nil) != tt.want {
				t.Errorf("Reserve: %v, want a block: %t", err, tt.want)
			}
			if now := l.revision(); !tt.want && now != before {
				t.Errorf("the ledger went from revision %d to %d, want nothing written", before, now)
			}
		})
	}
	l := newLoss(t)
	if whole, err := l.Compare(t.Context(), "unknown"); err != nil || whole {
		t.Errorf("Compare of a pool that is not registered = %t, %v, want false", whole, err)
	}
}

// revision is that of etcd.
func (l *loss) revision() int64 {
	l.t.Helper()
	got, err := l.etcd.Client().Get(l.t.Context(), "/")
	if err != nil {
		l.t.Fatal(err)
	}
	return got.Header.Revision
}

// shares registers a pool of one address domain, and publishes it as it is.
func (l *loss) shares(name string, cidr ipamv1alpha1.CIDR) *ipamv1alpha1.IPPool {
	l.t.Helper()
	pool := gen.Pool(name, gen.CIDR(cidr), gen.Domain("d"))
	_, err := l.ledger.Pools().Register(l.t.Context(), ledger.Pool{
		ID: ledger.PoolID(pool.UID), Cluster: "platform", Name: name,
		CIDR: netip.MustParsePrefix(string(cidr)), Space: ledger.DomainSpace("platform", "d"),
	})
	if err != nil {
		l.t.Fatal(err)
	}
	pool.Status.ObservedGeneration = pool.Generation
	return l.had(pool, string(cidr), l.ledger.Recovery().LedgerID(), 0)
}
