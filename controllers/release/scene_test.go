package release

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

// ledger has one block, of the claim default/c of the workspace w.
type ledger struct {
	cause    allocator.Cause // of the release
	block    allocator.Block
	released bool
	drained  bool
	root     *allocator.Pool // that is registered
	revision int64
	done     chan struct{} // closed when the block is released
}

func (l *ledger) Lookup(_ context.Context, claim allocator.ClaimID) (allocator.Block, bool, error) {
	return l.block, claim == l.block.Holder.Claim && !l.released, nil
}

func (l *ledger) Retain(_ context.Context, _ allocator.ClaimID, until time.Time) (allocator.Block, bool, error) {
	if l.block.State != allocator.Retained {
		l.block.State, l.block.Until = allocator.Retained, until
	}
	return l.block, true, nil
}

func (l *ledger) Reuse(context.Context, allocator.Block, allocator.Successor) (allocator.Block, error) {
	return allocator.Block{}, errors.New("nothing is reused here")
}

func (l *ledger) ReleaseFor(_ context.Context, b allocator.Block, because allocator.Cause) error {
	l.cause = because
	if b != l.block || l.released {
		return allocator.ErrChanged
	}
	l.released = true
	close(l.done)
	return nil
}

func (l *ledger) Withdraw(allocator.ClaimID) {}

func (l *ledger) Confirm(context.Context, allocator.Confirmation) (allocator.Block, bool, error) {
	return allocator.Block{}, false, nil
}

func (l *ledger) Adopt(context.Context, allocator.Request, allocator.BlockState) (allocator.Block, error) {
	return allocator.Block{}, errors.New("nothing is adopted here")
}

func (l *ledger) Drain(_ context.Context, id allocator.PoolID) error {
	if l.root != nil && l.root.Frozen {
		return &allocator.FrozenError{Pool: id, Lost: true}
	}
	l.drained = true
	return nil
}

func (l *ledger) Registered(_ context.Context, id allocator.PoolID) (allocator.Pool, int64, bool, error) {
	if l.root == nil || l.root.ID != id || l.drained {
		return allocator.Pool{}, 0, false, nil
	}
	return *l.root, 1, true, nil
}

func (l *ledger) Revision() int64 { return l.revision }

// oracle says what a test wants it to.
type oracle struct {
	answer live.Answer
	err    error
	asked  func()           // what happens while it is asked
	holder allocator.Holder // asked for last
	lists  int              // of those who are bound
	times  int              // a holder was asked for
	lacks  client.Client    // of the server that lacks the holder; none does if it is nil
	looked func()           // what happens while a server looks whether it lacks the holder
}

func (o *oracle) Lacks(context.Context, allocator.Holder) (client.Client, bool, error) {
	if o.looked != nil {
		o.looked()
	}
	return o.lacks, o.lacks != nil, nil
}

// Census fits the answer: the workspace "w" is bound nowhere if that says so.
func (o *oracle) Census(context.Context) (live.Census, bool, error) {
	o.lists++
	if o.asked != nil {
		o.asked()
	}
	c := live.Census{Bound: map[allocator.ClusterName]bool{}, Endpoints: 1, Since: o.answer.Since}
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

func (o *oracle) Holder(_ context.Context, h allocator.Holder) (live.Answer, error) {
	o.holder = h
	o.times++
	if o.asked != nil {
		o.asked()
	}
	return o.answer, o.err
}

// scene is a controller with its world.
type scene struct {
	*Controller
	ledger    *ledger
	oracle    *oracle
	clock     *clocktesting.FakePassiveClock
	workspace client.Client
	holder    allocator.Holder
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	return newSceneWith(t, interceptor.Funcs{}, objects...)
}

// newSceneWith is newScene with a workspace that does something else when asked.
func newSceneWith(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := ipamv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	holder := allocator.Holder{Claim: "uid-of-c", Cluster: "w", Namespace: "default", Name: "c"}
	s := &scene{
		ledger: &ledger{
			block:    allocator.Block{Holder: holder, State: allocator.Bound, Policy: allocator.Delete, Revision: 1},
			revision: 1, done: make(chan struct{}),
		},
		oracle:    &oracle{},
		clock:     clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		workspace: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(funcs).WithObjects(objects...).Build(),
		holder:    holder,
	}
	s.Controller = newController(Options{Ledger: s.ledger, Oracle: s.oracle, Clock: s.clock, Absence: time.Second})
	t.Cleanup(s.queue.ShutDown)
	return s
}

// settle settles the scene's hint with that answer.
func (s *scene) settle(t *testing.T, verdict live.Verdict) bool {
	t.Helper()
	s.oracle.answer = live.Answer{Verdict: verdict, Client: s.workspace}
	settled, err := s.Settle(t.Context(), s.holder)
	if err != nil {
		t.Fatal(err)
	}
	return settled
}

// record reads the scene's IPAllocation; nil when there is none.
func (s *scene) record(t *testing.T) *ipamv1alpha1.IPAllocation {
	t.Helper()
	record := gen.Allocation("c", "p", "10.0.0.0/28")
	err := s.workspace.Get(t.Context(), client.ObjectKeyFromObject(record), record)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func (s *scene) drained() bool { return s.ledger.drained && !s.ledger.released }
