package pool

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

type oracle struct {
	answer live.Answer
	err    error
	asked  int
}

func (o *oracle) Holder(context.Context, ledger.Holder) (live.Answer, error) {
	o.asked++
	return o.answer, o.err
}

// A stale cache may show a pool that another replica has retired, or show it as it was before a change that another
// replica has followed. So a server confirms that the pool exists, is not being deleted, and is as the cache shows it.
func TestConfirm_NeedsAServerThatShowsThePool(t *testing.T) {
	later := gen.Pool("p")
	later.Generation++
	for name, test := range map[string]struct {
		oracle
		want, stale bool
	}{
		"there":              {oracle: oracle{answer: live.Answer{Verdict: live.Alive, Object: gen.Pool("p")}}, want: true},
		"changed":            {oracle: oracle{answer: live.Answer{Verdict: live.Alive, Object: later}}, stale: true},
		"being deleted":      {oracle: oracle{answer: live.Answer{Verdict: live.Alive, Object: gen.Pool("p"), Leaving: true}}, stale: true},
		"gone":               {oracle: oracle{answer: live.Answer{Verdict: live.Gone}}, stale: true},
		"nobody can say":     {},
		"workspace has left": {oracle: oracle{answer: live.Answer{Verdict: live.Unbound}}},
		"no answer":          {oracle: oracle{err: errors.New("timeout")}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pass{Reconciler: &Reconciler{Options: Options{Oracle: &test.oracle}}, pool: gen.Pool("p")}
			if err := p.confirm(t.Context()); (err == nil) != test.want || errors.Is(err, errStale) != test.stale {
				t.Errorf("confirm = %v; want it to be so: %t, stale: %t", err, test.want, test.stale)
			}
		})
	}
}

// adopted is an Adoption of a ledger that has lost nothing.
type adopted struct{}

func (adopted) Whole(context.Context, ledger.PoolID, ipamv1alpha1.IPPoolStatus) (bool, error) {
	return true, nil
}

// The ledger has followed the spec of a pool: it excludes a prefix, and has the pool in a domain. The cache of the next
// leader may show the pool as it was before that. The ledger keeps the exclusion and the domain. A server is asked only
// if one of them would be undone.
func TestEnter_UndoesNothingByAStaleCache(t *testing.T) {
	t.Parallel()
	const excluded = "10.0.0.0/28"
	domain := gen.Domain("d")
	for name, tt := range map[string]struct {
		shown []gen.PoolOption // by the cache
		fresh bool             // the server shows the same
		want  []string         // what the ledger excludes then
		left  bool             // the pool has left the domain
		asked int
	}{
		"as it is":               {shown: []gen.PoolOption{domain, gen.Excludes(excluded)}, want: []string{excluded}},
		"one exclusion more":     {shown: []gen.PoolOption{domain, gen.Excludes(excluded, "10.0.0.16/28")}, want: []string{"10.0.0.0/27"}},
		"the same in two halves": {shown: []gen.PoolOption{domain, gen.Excludes("10.0.0.0/29", "10.0.0.8/29")}, want: []string{excluded}},
		"exclusion not seen":     {shown: []gen.PoolOption{domain}, want: []string{excluded}, asked: 1},
		"exclusion removed":      {shown: []gen.PoolOption{domain}, fresh: true, asked: 1},
		"domain not seen":        {shown: []gen.PoolOption{gen.Excludes(excluded)}, want: []string{excluded}, asked: 1},
		"domain left":            {shown: []gen.PoolOption{gen.Excludes(excluded)}, fresh: true, want: []string{excluded}, left: true, asked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, servers := newEntered(t, ledger.Pool{Space: ledger.DomainSpace("w", "d"), Excluded: prefixes(excluded)}, tt.shown...)
			if !tt.fresh {
				later := p.pool.DeepCopy()
				later.Generation++
				servers.answer.Object = later
			}
			stale := tt.asked > 0 && !tt.fresh
			if err := p.enter(t.Context()); errors.Is(err, errStale) != stale || err != nil && !stale {
				t.Errorf("enter = %v; want errStale: %t", err, stale)
			}
			now, _ := p.Ledger.Pools.Get(p.id)
			if left := now.Space != ledger.DomainSpace("w", "d"); !slices.Equal(now.Excluded, prefixes(tt.want...)) || left != tt.left {
				t.Errorf("the ledger excludes %v, left the domain: %t; want %v, %t", now.Excluded, left, tt.want, tt.left)
			}
			if servers.asked != tt.asked {
				t.Errorf("a server was asked %d times, want %d", servers.asked, tt.asked)
			}
		})
	}
}

// newEntered returns a pass over a pool. The ledger holds the given pool, and cache and server show it with these
// options.
func newEntered(t *testing.T, has ledger.Pool, shown ...gen.PoolOption) (*pass, *oracle) {
	t.Helper()
	return newEnteredIn(t, etcdtest.New(t).Client(), has, shown...)
}

// newEnteredIn does the same as newEntered, in this etcd.
func newEnteredIn(t *testing.T, etcd *clientv3.Client, has ledger.Pool, shown ...gen.PoolOption) (*pass, *oracle) {
	t.Helper()
	pool := gen.Pool("p", append(shown, gen.CIDR("10.0.0.0/24"))...)
	has.ID, has.Cluster, has.Name, has.CIDR = ledger.PoolID(pool.UID), "w", "p", netip.MustParsePrefix("10.0.0.0/24")
	alloc := testbed.Ledger(t, etcd, allocator.Options{}, has)
	servers := &oracle{answer: live.Answer{Verdict: live.Alive, Object: pool}}
	known, workspace := directory.New(directory.Workspace{Cluster: "platform"}), testbed.NewWorkspace(t)
	return &pass{
		Reconciler: &Reconciler{Options: Options{
			Ledger: views.Of(alloc), Adoption: adopted{}, Oracle: servers, Directory: known, Queue: inbox.New(known).Pools,
			Catalog: &catalog.Catalog{Clusters: testbed.Clusters{"w": workspace, "platform": workspace}, Directory: known},
		}, now: time.Now},
		cluster: workspace, pool: pool, id: has.ID, owner: directory.Workspace{Cluster: "w"},
	}, servers
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// The number of changes that a pool shows tells whether the ledger is an older copy. While the head of the pool's space
// cannot be read, the number is not known, and the pool goes on showing the last one.
func TestReconcile_KeepsTheChangesWhileTheHeadCannotBeRead(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.New(t).Client()
	p, _ := newEnteredIn(t, etcd, ledger.Pool{})
	for range 2 { // the finalizer comes first
		must.Do(t, p.reconcile(t.Context()))
	}
	had := *p.pool.Status.Ledger
	must.Get(etcd.Put(t.Context(), "/ipam/v1/spaces/"+string(p.id)+"/head", "{"))(t)
	p.Ledger = views.Of(testbed.Ledger(t, etcd, allocator.Options{})) // the next process
	must.Do(t, p.reconcile(t.Context()))
	if now := *p.pool.Status.Ledger; had.Changes == 0 || now != had {
		t.Errorf("the pool shows %+v, want %+v as before", now, had)
	}
}
