package release

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// fakeLedger has one block, of the claim default/c of the workspace w.
type fakeLedger struct {
	every

	cause    ledger.Cause // of the release
	block    ledger.Block
	released bool
	drained  bool
	root     *ledger.Pool // the one root pool; nil: none
	revision int64
	done     chan struct{} // closed when the block is released
}

func (l *fakeLedger) Lookup(_ context.Context, claim ledger.ClaimID) (ledger.Block, bool, error) {
	return l.block, claim == l.block.Holder.Claim && !l.released, nil
}

func (l *fakeLedger) Retain(_ context.Context, _ ledger.ClaimID, until time.Time) (ledger.Block, bool, error) {
	if l.block.State != ledger.Retained {
		l.block.State, l.block.Until = ledger.Retained, until
	}
	return l.block, true, nil
}

func (l *fakeLedger) HandOver(context.Context, ledger.Block, allocator.Successor) (ledger.Block, error) {
	return ledger.Block{}, errors.New("nothing is handed over here")
}

func (l *fakeLedger) ReleaseFor(_ context.Context, b ledger.Block, because ledger.Cause) error {
	l.cause = because
	if b != l.block || l.released {
		return ledger.ErrChanged
	}
	l.released = true
	close(l.done)
	return nil
}

func (l *fakeLedger) Withdraw(ledger.ClaimID) {}

func (l *fakeLedger) Drain(_ context.Context, id ledger.PoolID) error {
	if l.root != nil && l.root.Frozen {
		return &ledger.FrozenError{Pool: id, Lost: true}
	}
	l.drained = true
	return nil
}

func (l *fakeLedger) Read(_ context.Context, id ledger.PoolID) (ledger.Pool, int64, bool, error) {
	if l.root == nil || l.root.ID != id || l.drained {
		return ledger.Pool{}, 0, false, nil
	}
	return *l.root, 1, true, nil
}

func (l *fakeLedger) Get(id ledger.PoolID) (ledger.Pool, bool) {
	p, _, known, _ := l.Read(context.Background(), id)
	return p, known
}

func (l *fakeLedger) Revision() int64 { return l.revision }

// every embeds the views that the package uses. A fake embeds it, and implements the methods that a test calls.
type every struct {
	views.Blocks
	views.Pools
	views.Waits
	views.Retained
}

// all uses one fake as every view of a ledger.
func all(l interface {
	views.Blocks
	views.Pools
	views.Waits
	views.Retained
}) views.Ledger {
	return views.Ledger{Blocks: l, Pools: l, Waits: l, Retained: l}
}

// oracle gives the answers that a test has set.
type oracle struct {
	answer live.Answer
	err    error
	asked  func()        // called while a question is answered
	holder ledger.Holder // asked for last
	lists  int           // how many censuses were taken
	times  int           // how often a holder was asked for
	lacks  client.Client // a client of the server that lacks the holder; nil: none does
	looked func()        // called by Lacks
	past   *bool         // whether the claim existed when its record was stored; nil: no server knows
}

func (o *oracle) Existed(context.Context, client.Client, ledger.Holder, string) (existed, known bool, err error) {
	if o.past == nil {
		return false, false, nil
	}
	return *o.past, true, nil
}

func (o *oracle) Lacks(context.Context, ledger.Holder) (client.Client, bool, error) {
	if o.looked != nil {
		o.looked()
	}
	return o.lacks, o.lacks != nil, nil
}

// Census returns a census that agrees with the answer: it lacks the workspace w if the verdict is Unbound or
// NoEndpoint.
func (o *oracle) Census(context.Context) (live.Census, bool, error) {
	o.lists++
	if o.asked != nil {
		o.asked()
	}
	c := live.Census{Bound: map[ledger.ClusterName]bool{}, Endpoints: 1, Since: o.answer.Since}
	switch o.answer.Verdict {
	case live.Unbound:
	case live.NoEndpoint:
		c.Endpoints = 0
	case live.Unknown:
		return live.Census{}, false, o.err
	default:
		c.Bound["w"] = true
	}
	return c, o.err == nil, o.err
}

func (o *oracle) Holder(_ context.Context, h ledger.Holder) (live.Answer, error) {
	o.holder = h
	o.times++
	if o.asked != nil {
		o.asked()
	}
	return o.answer, o.err
}

// scene is a Controller, its fakes, and the holder at which its tests hint.
type scene struct {
	*Controller
	ledger    *fakeLedger
	oracle    *oracle
	clock     *clocktesting.FakePassiveClock
	workspace client.Client
	holder    ledger.Holder
}

// complete sets the options that a test leaves out: all workspaces are bound, the ledger has lost nothing, no block has a lease, and a claim without
// a reclaim policy has Delete.
func complete(o Options) Options {
	if o.Bound == nil {
		o.Bound = func(ledger.ClusterName) bool { return true }
	}
	o.Lease = func(context.Context, ledger.Block) (time.Duration, error) { return 0, nil }
	o.Reclaims = func(_ context.Context, own ipamv1alpha1.ReclaimPolicy, _ string) (ledger.ReclaimPolicy, error) {
		return cmp.Or(ledger.ReclaimPolicy(own), ledger.Delete), nil
	}
	if o.HasAll == nil {
		o.HasAll = func(context.Context, ledger.ClusterName, client.Object) (bool, error) { return true, nil }
	}
	o.Expired = func(context.Context, ledger.Holder, *ipamv1alpha1.IPAllocation) {}
	return o
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	return newSceneWith(t, interceptor.Funcs{}, objects...)
}

// newSceneWith makes a scene whose workspace client is intercepted by funcs.
func newSceneWith(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *scene {
	t.Helper()
	holder := ledger.Holder{Claim: "uid-of-c", Cluster: "w", Namespace: "default", Name: "c"}
	s := &scene{
		ledger: &fakeLedger{
			block:    ledger.Block{Holder: holder, State: ledger.Bound, Policy: ledger.Delete, Revision: 1},
			revision: 1, done: make(chan struct{}),
		},
		oracle:    &oracle{},
		clock:     clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		workspace: testbed.NewClient(t).WithInterceptorFuncs(funcs).WithObjects(objects...).Build(),
		holder:    holder,
	}
	s.Controller = newController(complete(Options{Ledger: all(s.ledger), Oracle: s.oracle, Clock: s.clock, Absence: time.Second}))
	t.Cleanup(s.queue.ShutDown)
	return s
}

// settle settles a hint at the scene's holder, for whom the servers have this verdict.
func (s *scene) settle(t *testing.T, verdict live.Verdict) bool {
	t.Helper()
	s.oracle.answer = live.Answer{Verdict: verdict, Client: s.workspace}
	return must.Get(s.Settle(t.Context(), s.holder))(t)
}

// record reads the scene's IPAllocation; nil if there is none.
func (s *scene) record(t *testing.T) *ipamv1alpha1.IPAllocation { return recordIn(t, s.workspace) }

// recordIn reads the IPAllocation of the claim default/c; nil if there is none.
func recordIn(t *testing.T, workspace client.Client) *ipamv1alpha1.IPAllocation {
	t.Helper()
	record := gen.Allocation("c", "p", "")
	err := workspace.Get(t.Context(), client.ObjectKeyFromObject(record), record)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must.Do(t, err)
	return record
}

func (s *scene) drained() bool { return s.ledger.drained && !s.ledger.released }
