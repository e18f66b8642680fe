package recover

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// shared returns a claim of a tenant. The claim shows a block of a pool: in the workspace with this path, or in the
// claim's own if there is no path.
func shared(pool, path, cidr string) *ipamv1alpha1.IPClaim {
	claim := gen.Claim("c")
	claim.Status.AllocatedCIDR = cidr
	claim.Status.PoolRef = &ipamv1alpha1.PoolRef{Name: pool}
	if path != "" {
		claim.Status.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: path}
	}
	return claim
}

// namesake returns another IPPool of the name p.
func namesake(uid string) *ipamv1alpha1.IPPool {
	pool := gen.Pool(uid)
	pool.Name = "p"
	return pool
}

// Complete is true only if every pool that the claim's status may name is in the ledger, was compared with its IPPool,
// and has lost nothing. One pool without that, in whichever workspace, makes it false.
func TestComplete_NeedsEveryPoolThatTheClaimMayName(t *testing.T) {
	for name, test := range map[string]struct {
		doubt func(l *loss)
		want  bool
	}{
		"all is well":        {func(*loss) {}, true},
		"a pool is frozen":   {func(l *loss) { must.Do(l.t, l.ledger.Recovery().Freeze(t.Context(), "uid-of-p", time.Time{})) }, false},
		"a pool was lost":    {func(l *loss) { l.losses.add("uid-of-p") }, false},
		"a pool is new here": {func(l *loss) { l.register("k", "10.0.64.0/18") }, false},
		"a pool is not in the ledger": {func(l *loss) {
			l.had(in("another", namesake("q")), "10.0.0.0/8", "lost", 1)
		}, false},
		"a pool of other addresses is not in the ledger": {func(l *loss) { l.had(namesake("q"), "10.1.0.0/16", "lost", 1) }, true},
		"a pool of a part of it is not in the ledger":    {func(l *loss) { l.had(namesake("q"), "10.0.64.0/29", "lost", 1) }, true},
		"a pool has no CIDR yet":                         {func(l *loss) { l.had(namesake("q"), "", "", 0) }, true},
		"a pool was retired": {func(l *loss) {
			l.had(namesake("q"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 1)
			l.register("q", "10.0.0.0/16")
			must.Do(l.t, l.ledger.Pools().Retire(t.Context(), "uid-of-q"))
		}, true},
		"a pool was retired before the start, and somebody holds it": {func(l *loss) {
			keep(l.had(namesake("q"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9))
		}, true},
		"a pool goes that the ledger never had": {func(l *loss) {
			q := l.had(namesake("q"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9)
			q.DeletionTimestamp, q.Finalizers = new(metav1.Now()), []string{ipamv1alpha1.FinalizerPool}
		}, false},
		"a pool waits to be compared, and the ledger has all of it": {func(l *loss) {
			l.had(namesake("q"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 1)
			l.register("q", "10.0.0.0/16")
		}, true},
		"a pool waits to be compared, and the ledger lacks changes": {func(l *loss) {
			l.had(namesake("q"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9)
			l.register("q", "10.0.0.0/16")
		}, false},
		"a pool drains that was never compared": {func(l *loss) {
			l.register("q", "10.0.0.0/16")
			must.Do(l.t, l.ledger.Pools().Drain(t.Context(), "uid-of-q"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			l.had(gen.Pool("p"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 1)
			l.register("p", "10.0.0.0/16")
			l.ledger.Recovery().Trust("uid-of-p")
			test.doubt(l)
			claim := shared("p", "root:before", "10.0.64.0/28")
			if got, err := l.Complete(t.Context(), "tenant", claim); err != nil || got != test.want {
				t.Errorf("Complete = %t, %v; want %t", got, err, test.want)
			}
			l.record.away = errors.New("a shard is away")
			if got, err := l.Complete(t.Context(), "tenant", claim); got && err == nil {
				t.Error("Complete = true while a shard is away")
			}
		})
	}
}

// A lost pool that the claim's status cannot name does not make Complete false. Otherwise a tenant could keep a forged
// block by a frozen pool of its own.
func TestComplete_IgnoresPoolsThatTheObjectCannotName(t *testing.T) {
	l := newLoss(t)
	for owner, id := range map[string]string{"tenant": "mine", "another": "theirs", "platform": "ours"} {
		l.had(in(owner, namesake(id)), "10.0.0.0/8", "lost", 1)
	}
	for name, test := range map[string]struct {
		in    ledger.ClusterName
		claim *ipamv1alpha1.IPClaim
		want  bool
	}{
		"its own pool":                    {"tenant", shared("p", "", "10.0.64.0/28"), false},
		"its own pool, of another name":   {"tenant", shared("q", "", "10.0.64.0/28"), true},
		"none of its own":                 {"alone", shared("p", "", "10.0.64.0/28"), true},
		"one by a path":                   {"another", shared("p", "root:x", "10.0.64.0/28"), false},
		"the platform's":                  {"tenant", shared("p", "root:ipam", "10.0.64.0/28"), false},
		"the platform's, of another name": {"tenant", shared("q", "root:ipam", "10.0.64.0/28"), true},
		"more than any pool has":          {"tenant", shared("p", "root:x", "0.0.0.0/0"), true},
		"no block":                        {"tenant", shared("p", "root:x", "10.0.64.1/28"), true},
		"no pool":                         {"tenant", func() *ipamv1alpha1.IPClaim { c := shared("p", "", "10.0.64.0/28"); c.Status.PoolRef = nil; return c }(), true},
	} {
		if got, err := l.Complete(t.Context(), test.in, test.claim); err != nil || got != test.want {
			t.Errorf("a claim that shows %s: Complete = %t, %v; want %t", name, got, err, test.want)
		}
	}
	l.record.pools = nil
	l.had(in("tenant", namesake("mine")), "10.0.0.0/8", "lost", 1)
	if got, err := l.Complete(t.Context(), "tenant", shared("p", "root:ipam", "10.0.64.0/28")); err != nil || !got {
		t.Errorf("a tenant's own frozen pool beside the platform's that it shows: Complete = %t, %v; want true", got, err)
	}
}

// Concurrent calls for different claims share one list of all pools, because users can send many DELETEs.
func TestComplete_SharesOneListAmongCallers(t *testing.T) {
	const callers = 16
	l := newLoss(t)
	l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 1)
	l.losses.add("uid-of-p") // so that etcd, which is outside of the bubble, is not asked
	synctest.Test(t, func(t *testing.T) {
		lists, end := 0, make(chan struct{})
		l.record.listing = func() {
			lists++
			<-end
		}
		var asking sync.WaitGroup
		ask := func(pool string, want bool) {
			asking.Go(func() {
				if got, err := l.Complete(t.Context(), "tenant", shared(pool, "root:ipam", "10.0.64.0/28")); err != nil || got != want {
					t.Errorf("Complete of a claim that shows %s = %t, %v; want %t", pool, got, err, want)
				}
			})
		}
		ask("p", false)
		synctest.Wait()
		for n := range callers {
			ask([]string{"p", "q"}[n%2], n%2 == 1)
		}
		synctest.Wait()
		close(end)
		asking.Wait()
		if lists != 2 {
			t.Errorf("%d callers beside one cost %d lists, want 2", callers, lists)
		}
	})
}

// register puts a root pool named p into the ledger, in a space of its own.
func (l *loss) register(uid, cidr string) {
	l.t.Helper()
	must.Get(l.ledger.Pools().Register(l.t.Context(), ledger.Pool{
		ID: ledger.PoolID("uid-of-" + uid), Cluster: ledger.ClusterName("owner-of-" + uid), Name: "p", CIDR: netip.MustParsePrefix(cidr),
	}))(l.t)
}

// Compare is true, and the pools of a space allocate blocks, only if the ledger has all changes that these pools show.
// Otherwise nothing is written.
func TestCompare_TrustsASpaceThatHasLostNoChanges(t *testing.T) {
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
			must.Do(l.t, l.ledger.Recovery().Freeze(l.t.Context(), ledger.PoolID(first.UID), time.Time{}))
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
			_, err := l.ledger.Bind(t.Context(), ledger.Request{
				Pool: id, Length: 28, Holder: ledger.Holder{Claim: promise.NewID("w", "default", "c"), Cluster: "w", Namespace: "default", Name: "c"},
			})
			if (err == nil) != tt.want {
				t.Errorf("Bind: %v, want a block: %t", err, tt.want)
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

// revision returns the revision of etcd.
func (l *loss) revision() int64 {
	l.t.Helper()
	got := must.Get(l.etcd.Client().Get(l.t.Context(), "/"))(l.t)
	return got.Header.Revision
}

// shares registers a pool in the address domain d. It publishes the pool's IPPool with the ledger's ID and a count of
// zero changes.
func (l *loss) shares(name string, cidr ipamv1alpha1.CIDR) *ipamv1alpha1.IPPool {
	l.t.Helper()
	pool := gen.Pool(name, gen.CIDR(cidr), gen.Domain("d"))
	l.registers(pool, string(cidr))
	pool.Status.ObservedGeneration = pool.Generation
	return l.had(pool, string(cidr), l.ledger.Recovery().LedgerID(), 0)
}
