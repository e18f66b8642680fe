package recover

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// published is a Record of these objects. An object is in the platform, unless its annotation names another cluster. A
// list fails with the error in away, if there is one.
type published struct {
	pools   []*ipamv1alpha1.IPPool
	records []*ipamv1alpha1.IPAllocation
	claims  []*ipamv1alpha1.IPClaim
	away    error
	unbound ledger.ClusterName // a workspace that is bound nowhere
	since   time.Time          // when the endpoint slice was made
	listing func()             // runs when pools are listed; nil: nothing does
}

func (p *published) Each(_ context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object)) error {
	switch list.(type) {
	case *ipamv1alpha1.IPPoolList:
		if p.listing != nil {
			p.listing()
		}
		return each(p.pools, p.away, visit)
	case *ipamv1alpha1.IPAllocationList:
		return each(p.records, p.away, visit)
	default:
		return each(p.claims, p.away, visit)
	}
}

// each visits the objects. Then it fails with the error away, if there is one, as if another shard did not answer.
func each[T client.Object](objects []T, away error, visit func(ledger.ClusterName, client.Object)) error {
	for _, object := range objects {
		visit(ledger.ClusterName(cmp.Or(logicalcluster.From(object), "platform")), object)
	}
	return away
}

func (p *published) Holder(_ context.Context, h ledger.Holder) (live.Answer, error) {
	if h.Cluster == p.unbound {
		return live.Answer{Verdict: live.Unbound, Since: p.since}, nil
	}
	for _, claim := range p.claims {
		switch {
		case claim.Namespace != h.Namespace || claim.Name != h.Name:
		case live.Is(claim, h):
			return live.Answer{Verdict: live.Alive}, nil
		default:
			return live.Answer{Verdict: live.Gone, Object: claim}, nil
		}
	}
	return live.Answer{Verdict: live.Gone}, nil
}

// loss is a ledger, and what was published from another ledger, or from later changes of this one.
type loss struct {
	*Adopter
	t         *testing.T
	now       *clocktesting.FakePassiveClock
	etcd      *etcdtest.Etcd
	ledger    *allocator.Allocator
	record    *published
	classes   []client.Object
	suspected []ledger.ClaimID
	doubted   []ledger.ClaimID
}

// newLoss returns an empty ledger that is frozen. The cache has the given classes, or by default the classes of the
// claims in the tests.
func newLoss(t *testing.T, classes ...client.Object) *loss {
	t.Helper()
	if classes == nil {
		classes = []client.Object{gen.Class("internal"), gen.Class("net", gen.PoolPer("allProjects", "network")), gen.Class("other")}
	}
	l := &loss{t: t, classes: classes, etcd: etcdtest.New(t), record: &published{}, now: clocktesting.NewFakePassiveClock(time.Unix(1_800_000_000, 0))}
	l.restart()
	return l
}

// restart starts another Allocator and Adopter on the same etcd, as a new process does.
func (l *loss) restart() {
	l.t.Helper()
	l.ledger = testbed.Ledger(l.t, l.etcd.Client(), allocator.Options{Frozen: true})
	l.Adopter = NewAdopter(AdopterOptions{
		Ledger: l.ledger, Books: allocator.Reader{Client: l.etcd.Client()}, Record: l.record, Clusters: testbed.Clusters{"": testbed.NewWorkspace(l.t, l.classes...)},
		Directory: directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"}),
		Suspect:   func(h ledger.Holder) { l.suspected = append(l.suspected, h.Claim) },
		Doubt:     func(h ledger.Holder) { l.doubted = append(l.doubted, h.Claim) },
	})
	l.clock = l.now
}

// binds makes known a workspace that shows this path. It returns the workspace's APIBinding.
func (l *loss) binds(cluster, path string) *apisv1alpha2.APIBinding {
	b := testbed.Binding(cluster, path)
	l.Directory.Seen("https://endpoint", b)
	return b
}

// in puts an object into a workspace that is not the platform.
func in[T client.Object](cluster string, object T) T {
	object.SetAnnotations(map[string]string{"kcp.io/cluster": cluster})
	return object
}

// keep marks pools as being deleted, without our finalizer and with one of the owner.
func keep(pools ...*ipamv1alpha1.IPPool) {
	for _, pool := range pools {
		pool.DeletionTimestamp, pool.Finalizers = new(metav1.Now()), []string{"example.com/keep"}
	}
}

// retained returns the retained IPAllocation of the former claim r, and when it expires.
func retained(pool, cidr string) (*ipamv1alpha1.IPAllocation, time.Time) {
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	record := gen.Allocation("r", pool, cidr, gen.Retained())
	record.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "r/uid-of-r"}
	record.Status.Expires = new(metav1.NewTime(until))
	return record, until
}

// registers puts a root pool of the platform into the ledger.
func (l *loss) registers(pool *ipamv1alpha1.IPPool, cidr string) ledger.PoolID {
	l.t.Helper()
	return must.Get(l.ledger.Pools().Register(l.t.Context(), ledger.Pool{
		ID: ledger.PoolID(pool.UID), Cluster: "platform", Name: pool.Name, Space: catalog.Space(pool, "platform"),
		CIDR: netip.MustParsePrefix(cidr),
	}))(l.t).ID
}

// older makes a restored ledger: it has the root pool p, and a block that this claim holds. The IPPool is published
// with more changes than the ledger has.
func (l *loss) older(claim string) ledger.PoolID {
	l.t.Helper()
	pool := l.had(gen.Pool("p"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9)
	id := l.registers(pool, "10.0.0.0/16")
	must.Get(l.ledger.Recovery().Adopt(l.t.Context(), ledger.Request{
		Pool: id, Exact: netip.MustParsePrefix("10.0.0.0/28"),
		Holder: ledger.Holder{Claim: ledger.ClaimID("uid-of-" + claim), Cluster: "platform", Namespace: "default", Name: claim},
	}, ledger.Bound))(l.t)
	if l.whole(pool) {
		l.t.Fatal("a ledger that is behind passes for whole")
	}
	return id
}

// had publishes an IPPool with this CIDR. Its status names a ledger, and has the count of changes that this ledger had
// for the pool.
func (l *loss) had(pool *ipamv1alpha1.IPPool, cidr, ledger string, changes int64) *ipamv1alpha1.IPPool {
	pool.Status.AllocatedCIDR = cidr
	pool.Status.Ledger = &ipamv1alpha1.PoolLedger{ID: ledger, Changes: changes}
	l.record.pools = append(l.record.pools, pool)
	return pool
}

func (l *loss) whole(pool *ipamv1alpha1.IPPool) bool {
	l.t.Helper()
	return must.Get(l.Whole(l.t.Context(), ledger.PoolID(pool.UID), pool.Status))(l.t)
}

// blocks returns the prefix and the state of each block in the ledger, by claim.
func (l *loss) blocks() map[ledger.ClaimID]string {
	l.t.Helper()
	blocks := map[ledger.ClaimID]string{}
	for b, err := range l.ledger.List(l.t.Context(), allocator.ListOptions{}) {
		if err != nil {
			l.t.Fatal(err)
		}
		blocks[b.Holder.Claim] = b.Prefix.String() + " " + string(b.State)
	}
	return blocks
}

func (l *loss) wantBlocks(want map[*ipamv1alpha1.IPAllocation]string) {
	l.t.Helper()
	got := l.blocks()
	for record, text := range want {
		if id := ledger.ClaimID(record.AllocationID()); got[id] != text {
			l.t.Errorf("the block of %s is %q; want %q", id, got[id], text)
		}
	}
}

// wantAll expects the ledger to have these blocks, by claim, and no others.
func (l *loss) wantAll(want map[ledger.ClaimID]string) {
	l.t.Helper()
	if got := l.blocks(); !maps.Equal(got, want) {
		l.t.Errorf("the ledger has %v, want %v", got, want)
	}
}

func TestPass_RestoresAnEmptyLedger(t *testing.T) {
	l := newLoss(t)
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	child := l.had(gen.Pool("k", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3)
	bound, below := gen.Allocation("a", "p", "10.0.4.0/28"), gen.Allocation("b", "k", "10.0.9.16/28")
	retained, until := retained("p", "10.0.5.0/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{below, bound, retained}
	l.wantLost("unknown to the ledger", parent, child)

	l.record.away = errors.New("a shard is away")
	must.Be(t, l.pass(t.Context()), l.record.away)
	l.wantLost("while a shard is away", parent, child)
	l.record.away = nil
	l.makesWhole(parent, child)
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{
		bound: "10.0.4.0/28 bound", below: "10.0.9.16/28 bound", retained: "10.0.5.0/28 retained",
	})
	if b, _, err := l.ledger.Lookup(t.Context(), "uid-of-r"); err != nil || !b.Until.Equal(until) {
		t.Errorf("the retained block ends at %s, %v; want %s, as its record says", b.Until, err, until)
	}
	if p, ok := l.ledger.Pools().Get(ledger.PoolID(child.UID)); !ok || p.CIDR != netip.MustParsePrefix("10.0.9.0/24") || p.Parent != ledger.PoolID(parent.UID) {
		t.Errorf("the child is %+v, %t", p, ok)
	}
}

// The restored ledger has the block for a claim that was deleted since. An IPAllocation shows the block for another
// claim. The pool stays frozen until the block of the deleted claim was released. Then the other claim gets the block.
func TestPass_WaitsUntilAFormerHolderIsReleased(t *testing.T) {
	l := newLoss(t)
	id := l.older("old")
	heir := gen.Allocation("heir", "p", "10.0.0.0/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{heir}
	if err := l.pass(t.Context()); err == nil || !l.ledger.Recovery().Frozen(id) {
		t.Errorf("pass = %v while a claim that is gone has the block; want a fault, and the pool frozen", err)
	}
	l.wantAll(map[ledger.ClaimID]string{"uid-of-old": "10.0.0.0/28 bound"})
	if len(l.suspected) != 1 || l.suspected[0] != "uid-of-old" {
		t.Errorf("suspected are %v; want the other holder", l.suspected)
	}
	must.Do(t, l.ledger.Release(t.Context(), "uid-of-old"))
	must.Do(t, l.pass(t.Context()))
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{heir: "10.0.0.0/28 bound"})
	if c, _ := l.ledger.Pools().Capacity(id); c.Changes <= 9+leap-1 {
		t.Errorf("the count goes on from %d, where another copy may be", c.Changes)
	}
}

// Two kinds of IPPools can never be made whole. One has a forged status, stored past webhooks and policies. The other
// is of a deleted workspace, and kcp lists it for ever. Neither keeps pools of other owners frozen.
func TestPass_MakesOtherPoolsWholeBesideOneThatNobodyCanMend(t *testing.T) {
	l := newLoss(t)
	pool := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	for name, cidr := range map[string]string{"forged": "10.1.0.0/160", "orphan": "10.2.0.0/16"} {
		l.had(in(name, gen.Pool(name)), cidr, "lost", 7)
	}
	l.makesWhole(pool)
}

// The IPPool of a child stays when the workspace of its parent is unbound. Another pool may then have the name that the
// child's parent reference gives, and not contain the child's CIDR. The child stays lost. The pass makes the other lost
// pools whole.
func TestPass_LeavesAChildLostIfItsParentIsMissing(t *testing.T) {
	l := newLoss(t)
	parent := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 7)
	child := l.had(gen.Pool("k", gen.ChildOf("p", 24)), "10.0.9.0/24", "lost", 3)
	var lost []*ipamv1alpha1.IPPool
	for name, of := range map[string]string{"orphan": "gone", "grandchild": "orphan", "stray": "p"} {
		lost = append(lost, l.had(gen.Pool(name, gen.ChildOf(of, 24)), "10.9.9.0/24", "lost", 3))
	}
	if err := l.pass(t.Context()); err == nil {
		t.Error("pass = nil; want it to name the children without a parent")
	}
	l.wantWhole("beside children without a parent", parent, child)
	l.wantLost("without its parent's block", lost...)
}

// A pool that was found lost, and is deleted before the pass, is no longer lost after the pass.
func TestPass_ForgetsALostPoolThatWasDeleted(t *testing.T) {
	l := newLoss(t)
	pool := l.had(gen.Pool("p"), "10.0.0.0/16", "lost", 1)
	l.wantLost("unknown to the ledger", pool)
	l.record.pools = nil
	must.Do(t, l.pass(t.Context()))
	if l.losses.has(ledger.PoolID(pool.UID)) {
		t.Error("a pool that is gone counts as lost for ever")
	}
}
