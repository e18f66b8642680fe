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
	"github.com/kcp-ipam/ipam/controllers/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

// ledger has one block, of the claim default/c of the workspace w.
type ledger struct {
	block    allocator.Block
	released bool
	drained  bool
	done     chan struct{} // closed when the block is released
}

func (l *ledger) Lookup(_ context.Context, claim allocator.ClaimID) (allocator.Block, bool, error) {
	return l.block, claim == l.block.Holder.Claim && !l.released, nil
}

func (l *ledger) Retain(context.Context, allocator.ClaimID) (allocator.Block, bool, error) {
	l.block.State = allocator.Retained
	return l.block, true, nil
}

func (l *ledger) ReleaseIf(_ context.Context, b allocator.Block) error {
	if b != l.block || l.released {
		return allocator.ErrChanged
	}
	l.released = true
	close(l.done)
	return nil
}

func (l *ledger) Withdraw(allocator.ClaimID) {}

func (l *ledger) Drain(context.Context, allocator.PoolID) error {
	l.drained = true
	return nil
}

// oracle says what a test wants it to.
type oracle struct {
	answer live.Answer
	err    error
	asked  func()           // what happens while it is asked
	holder allocator.Holder // asked for last
}

func (o *oracle) Holder(_ context.Context, h allocator.Holder) (live.Answer, error) {
	o.holder = h
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
			block: allocator.Block{Holder: holder, State: allocator.Bound, Policy: allocator.Delete, Revision: 1},
			done:  make(chan struct{}),
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

func TestSettle_FreesNothingInDoubt(t *testing.T) {
	for name, verdict := range map[string]live.Verdict{
		"alive": live.Alive, "unknown": live.Unknown, "unbound once": live.Unbound, "no endpoint, not seen to go": live.NoEndpoint,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
			if settled := s.settle(t, verdict); settled != (verdict == live.Alive) {
				t.Errorf("settled = %t", settled)
			}
			if s.ledger.released || s.record(t) == nil {
				t.Error("something was taken away")
			}
		})
	}
}

// A hint may name another object than the block's holder: then a server that is asked by
// that name says that no such object has the UID. The ledger's word is what is asked for.
func TestSettle_AsksForTheHolderInTheLedger(t *testing.T) {
	s := newScene(t)
	for _, wrong := range []allocator.Holder{
		{Claim: s.holder.Claim, Cluster: s.holder.Cluster, Namespace: s.holder.Namespace, Name: "another"},
		{Claim: s.holder.Claim, Cluster: s.holder.Cluster, Namespace: "elsewhere", Name: s.holder.Name},
		{Claim: s.holder.Claim, Cluster: s.holder.Cluster, Name: s.holder.Name},
		{Claim: s.holder.Claim, Cluster: "v", Namespace: s.holder.Namespace, Name: s.holder.Name},
	} {
		s.oracle.answer = live.Answer{Verdict: live.Alive, Client: s.workspace}
		if _, err := s.Settle(t.Context(), wrong); err != nil {
			t.Fatalf("Settle(%+v): %v", wrong, err)
		}
		if s.oracle.holder != s.holder {
			t.Errorf("Settle(%+v) asks for %+v; want %+v, the holder in the ledger", wrong, s.oracle.holder, s.holder)
		}
	}
}

// Where the usual name of the record belongs to another claim, the holder's record has
// the long one. The other's stays as it is.
func TestSettle_ARecordOfTheLongName(t *testing.T) {
	names := ipamv1alpha1.AllocationNames("default", "c")
	for _, policy := range []allocator.ReclaimPolicy{allocator.Delete, allocator.Retain} {
		other, own := gen.Allocation("c", "p", "10.0.0.16/28"), gen.Allocation("c", "p", "10.0.0.0/28")
		other.Spec.ClaimRef = &ipamv1alpha1.ClaimRef{Name: "other", UID: "uid-of-other"}
		own.Name, own.Spec.ClaimRef = names[1], &ipamv1alpha1.ClaimRef{Name: "c", UID: "uid-of-c"}
		s := newScene(t, other, own)
		s.ledger.block.Policy = policy
		if !s.settle(t, live.Gone) {
			t.Fatalf("%s: settled = false, want true", policy)
		}
		now := &ipamv1alpha1.IPAllocation{}
		if err := s.workspace.Get(t.Context(), client.ObjectKeyFromObject(other), now); err != nil || now.Spec.ClaimRef == nil {
			t.Errorf("%s: the other claim's record is %+v, %v; want it as it was", policy, now.Spec, err)
		}
		err := s.workspace.Get(t.Context(), client.ObjectKeyFromObject(own), now)
		switch policy {
		case allocator.Retain:
			if _, uid := now.HeldBy(); err != nil || now.Spec.ClaimRef != nil || uid != "uid-of-c" || s.ledger.released {
				t.Errorf("Retain: the record is %+v of %s, %v, released %t; want it without a claim, and the block kept", now.Spec, uid, err, s.ledger.released)
			}
		default:
			if !apierrors.IsNotFound(err) || !s.ledger.released {
				t.Errorf("Delete: the record is %v, released %t; want neither record nor block", err, s.ledger.released)
			}
		}
	}
}

func TestSettle_AFaultIsAnError(t *testing.T) {
	s := newScene(t)
	s.oracle.err = errors.New("connection refused")
	if _, err := s.Settle(t.Context(), s.holder); !errors.Is(err, s.oracle.err) || s.ledger.released {
		t.Errorf("err = %v, released = %t", err, s.ledger.released)
	}
}

func TestSettle_GoneTakesRecordAndBlock(t *testing.T) {
	s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
	if !s.settle(t, live.Gone) || !s.ledger.released || s.record(t) != nil {
		t.Errorf("released = %t, record = %v", s.ledger.released, s.record(t))
	}
}

func TestSettle_LeavesTheRecordOfAnotherClaim(t *testing.T) {
	other := gen.Allocation("c", "p", "10.0.0.16/28")
	other.Spec.ClaimRef.UID = "uid-of-its-successor"
	s := newScene(t, other)
	if !s.settle(t, live.Gone) || !s.ledger.released || s.record(t) == nil {
		t.Errorf("released = %t, record = %v", s.ledger.released, s.record(t))
	}
}

func TestSettle_UnboundTwiceFrees(t *testing.T) {
	s := newScene(t)
	s.settle(t, live.Unbound)
	if s.settle(t, live.Unbound) || s.ledger.released {
		t.Error("freed though the two looks were not apart")
	}
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	if !s.settle(t, live.Unbound) || !s.ledger.released {
		t.Error("not freed at the second look")
	}
}

func TestSettle_ABindingInBetweenStartsOver(t *testing.T) {
	s := newScene(t)
	s.settle(t, live.Unbound)
	s.Arrived("w")
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	if s.settle(t, live.Unbound) || s.ledger.released {
		t.Error("freed at the first look after the workspace was bound again")
	}
}

func TestSettle_TheLastTenantOfAShard(t *testing.T) {
	s := newScene(t)
	s.Departed("w")
	s.settle(t, live.NoEndpoint)
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	if !s.settle(t, live.NoEndpoint) || !s.ledger.released {
		t.Error("not freed though its binding was seen to go")
	}
}

// A storm of claims that are refused and deleted again costs the servers nothing.
func TestSettle_AClaimThatWasNeverBoundAsksNobody(t *testing.T) {
	s := newScene(t)
	s.oracle.err = errors.New("asked")
	never := s.holder
	never.Claim = "uid-of-another"
	s.Deleted(never, gen.Claim("c"))
	if settled, err := s.Settle(t.Context(), never); err != nil || !settled {
		t.Errorf("settled = %t, %v; nothing is left of it", settled, err)
	}
	// One whose block was bound, and not shown before it went, has something to settle.
	s.Deleted(s.holder, gen.Claim("c"))
	if _, err := s.Settle(t.Context(), s.holder); !errors.Is(err, s.oracle.err) {
		t.Errorf("err = %v; its block is freed unasked, or forgotten", err)
	}
}

// That there is no endpoint says nothing of a workspace that nobody saw leave.
func TestSettle_NoEndpointAndNobodySeenToLeave(t *testing.T) {
	s := newScene(t)
	for range 3 {
		if s.settle(t, live.NoEndpoint) || s.ledger.released {
			t.Fatal("freed, as if its binding had been seen to go")
		}
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
	}
}

// A kcp restored from a backup makes every newer claim look deleted.
func TestSettle_AServerOlderThanTheClaimIsNotBelieved(t *testing.T) {
	for server, want := range map[string]bool{"99": false, "100": true, "101": true} {
		s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
		last := gen.Claim("c")
		last.ResourceVersion = "100"
		s.Deleted(s.holder, last)
		s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace, Revision: server}
		settled, err := s.Settle(t.Context(), s.holder)
		if err != nil || settled != want || s.ledger.released != want {
			t.Errorf("server at %s: settled = %t, released = %t, %v; want %t", server, settled, s.ledger.released, err, want)
		}
	}
}

func TestSettle_AChildPoolDrains(t *testing.T) {
	s := newScene(t)
	s.holder = allocator.Holder{Claim: "uid-of-pool", Cluster: "w", Name: "pool"}
	if !s.settle(t, live.Gone) || !s.drained() {
		t.Error("the pool is not drained")
	}
}

func (s *scene) drained() bool { return s.ledger.drained && !s.ledger.released }

// A shard that is away has not entered itself in an endpoint slice that was made meanwhile. A
// block that is older than the slice is freed only if its workspace was seen to leave.
func TestSettle_ABlockOlderThanTheEndpointSlice(t *testing.T) {
	for name, tt := range map[string]struct {
		older, departed, want bool
	}{
		"younger":             {want: true},
		"older":               {older: true},
		"older, seen leaving": {older: true, departed: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			made := s.clock.Now()
			s.ledger.block.BoundAt = made.Add(time.Minute)
			if tt.older {
				s.ledger.block.BoundAt = made
			}
			if tt.departed {
				s.Departed("w")
			}
			s.oracle.answer = live.Answer{Verdict: live.Unbound, Since: made}
			for range 3 {
				if _, err := s.Settle(t.Context(), s.holder); err != nil {
					t.Fatal(err)
				}
				s.clock.SetTime(s.clock.Now().Add(time.Hour))
			}
			if s.ledger.released != tt.want {
				t.Errorf("released = %t, want %t", s.ledger.released, tt.want)
			}
		})
	}
}
