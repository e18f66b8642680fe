package adopt

import (
	"errors"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The ledger is complete where every pool that has the addresses is in it, compared and not lost. One doubt in
// one workspace is enough.
func TestComplete(t *testing.T) {
	for name, test := range map[string]struct {
		doubt func(l *loss)
		want  bool
	}{
		"all is well":        {func(*loss) {}, true},
		"a pool is frozen":   {func(l *loss) { l.must(l.ledger.Freeze(t.Context(), "uid-of-p")) }, false},
		"a pool was lost":    {func(l *loss) { l.lose("uid-of-p") }, false},
		"a pool is new here": {func(l *loss) { l.register("k", "10.0.64.0/18") }, false},
		"a pool is not in the ledger": {func(l *loss) {
			l.had(gen.Pool("q"), "10.0.0.0/8", "lost", 1).Annotations = map[string]string{"kcp.io/cluster": "tenant"}
		}, false},
		"a pool elsewhere is not in the ledger": {func(l *loss) { l.had(gen.Pool("q"), "10.1.0.0/16", "lost", 1) }, true},
		"a pool has no CIDR yet":                {func(l *loss) { l.had(gen.Pool("q"), "", "", 0) }, true},
		"a pool was retired": {func(l *loss) {
			l.had(gen.Pool("q"), "10.0.0.0/16", l.ledger.LedgerID(), 1)
			l.register("q", "10.0.0.0/16")
			l.must(l.ledger.Retire(t.Context(), "uid-of-q"))
		}, true},
		"a pool was retired before the start, and somebody holds it": {func(l *loss) {
			now := metav1.Now()
			q := l.had(gen.Pool("q"), "10.0.0.0/16", l.ledger.LedgerID(), 9)
			q.DeletionTimestamp, q.Finalizers = &now, []string{"example.com/mine"}
		}, true},
		"a pool goes that the ledger never had": {func(l *loss) {
			now := metav1.Now()
			q := l.had(gen.Pool("q"), "10.0.0.0/16", l.ledger.LedgerID(), 9)
			q.DeletionTimestamp, q.Finalizers = &now, []string{ipamv1alpha1.FinalizerPool}
		}, false},
		"a pool waits to be compared, and the ledger has all of it": {func(l *loss) {
			l.had(gen.Pool("q"), "10.0.0.0/16", l.ledger.LedgerID(), 1)
			l.register("q", "10.0.0.0/16")
		}, true},
		"a pool waits to be compared, and the ledger lacks changes": {func(l *loss) {
			l.had(gen.Pool("q"), "10.0.0.0/16", l.ledger.LedgerID(), 9)
			l.register("q", "10.0.0.0/16")
		}, false},
		"a pool drains that was never compared": {func(l *loss) {
			l.register("q", "10.0.0.0/16")
			l.must(l.ledger.Drain(t.Context(), "uid-of-q"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			l.had(gen.Pool("p"), "10.0.0.0/16", l.ledger.LedgerID(), 1)
			l.register("p", "10.0.0.0/16")
			l.ledger.Trust("uid-of-p")
			test.doubt(l)
			if got, err := l.Complete(t.Context(), netip.MustParsePrefix("10.0.64.0/28")); err != nil || got != test.want {
				t.Errorf("Complete = %t, %v; want %t", got, err, test.want)
			}
			l.record.away = errors.New("a shard is away")
			if got, err := l.Complete(t.Context(), netip.MustParsePrefix("10.0.64.0/28")); got && err == nil {
				t.Error("Complete = true while a shard is away")
			}
		})
	}
}

// register has the ledger know a root pool of the platform, in a space of its own.
func (l *loss) register(name, cidr string) {
	l.t.Helper()
	id := ledger.PoolID("uid-of-" + name)
	_, err := l.ledger.Register(l.t.Context(), ledger.Pool{
		ID: id, Cluster: ledger.ClusterName("owner-of-" + name), Name: name, CIDR: netip.MustParsePrefix(cidr),
	})
	l.must(err)
}

func (l *loss) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}
