package consumer

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// scene is a controller with a world of one workspace, in which a test says what is
// seen of consumers.
type scene struct {
	cluster.Cluster // what the controller does not use
	*Reconciler
	*testing.T
	workspace client.Client
	recorder  *events.FakeRecorder
	clock     *clocktesting.FakePassiveClock
	sight     live.Sight
	refs      []live.Ref // that were asked for
	holder    live.Verdict
	writes    int
}

func newScene(t *testing.T, opts Options, objects ...client.Object) *scene {
	t.Helper()
	s := &scene{
		T:        t,
		recorder: events.NewFakeRecorder(100),
		clock:    clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		holder:   live.Alive,
	}
	s.workspace = testbed.NewClient(t).WithObjects(objects...).WithStatusSubresource(&ipamv1alpha1.IPClaim{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				s.writes++
				if claim, ok := obj.(*v1controller1.IPClaim); ok {
					obj = &claim.IPClaim // one object in two versions, which the fake does not know
				}
				return c.SubResource(sub).Patch(ctx, obj, p, opts...)
			},
		}).Build()
	opts.Clusters, opts.World, opts.Clock = s, s, s.clock
	opts.Directory = directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"})
	s.Reconciler = newReconciler(opts, s)
	t.Cleanup(s.queue.ShutDown)
	return s
}

func (s *scene) GetCluster(context.Context, multicluster.ClusterName) (cluster.Cluster, error) {
	return s, nil
}
func (s *scene) GetClient() client.Client                     { return s.workspace }
func (s *scene) GetConfig() *rest.Config                      { return &rest.Config{Host: "https://kcp/clusters/w"} }
func (s *scene) GetEventRecorder(string) events.EventRecorder { return s.recorder }
func (s *scene) Wait(context.Context) error                   { return nil }
func (s *scene) Object(_ context.Context, _ ledger.ClusterName, ref live.Ref) (live.Sight, error) {
	s.refs = append(s.refs, ref)
	return s.sight, nil
}

func (s *scene) Holder(context.Context, ledger.Holder) (live.Answer, error) {
	return live.Answer{Verdict: s.holder, Client: s.workspace}, nil
}

// look has a claim looked at after the interval.
func (s *scene) look(claims ...string) {
	s.Helper()
	s.clock.SetTime(s.clock.Now().Add(s.Interval))
	s.lookAtOnce(claims...)
}

func (s *scene) lookAtOnce(claims ...string) {
	s.Helper()
	for _, claim := range claims {
		result := must.Get(s.Reconcile(s.Context(), request(claim)))(s)
		if s.has(claim) && result.RequeueAfter == 0 {
			s.Errorf("claim %s is not looked at again", claim)
		}
	}
}

func request(claim string) mcreconcile.Request {
	return inbox.Request("w", types.NamespacedName{Namespace: "default", Name: claim})
}

func (s *scene) has(claim string) bool {
	return s.workspace.Get(s.Context(), types.NamespacedName{Namespace: "default", Name: claim}, &ipamv1alpha1.IPClaim{}) == nil
}

// wantSaid expects the condition of the claim web to give a reason; an empty one: that there is no condition.
func (s *scene) wantSaid(when string, want ipamv1alpha1.Reason) {
	s.Helper()
	obj := gen.Claim("web")
	must.Do(s, s.workspace.Get(s.Context(), client.ObjectKeyFromObject(obj), obj))
	said := ipamv1alpha1.Reason("")
	if condition := meta.FindStatusCondition(obj.Status.Conditions, ipamv1alpha1.ConditionConsumerGone); condition != nil {
		said = ipamv1alpha1.Reason(condition.Reason)
	}
	if said != want {
		s.Fatalf("%s: the claim says %q, want %q", when, said, want)
	}
}

// lookMore looks at a claim several times, and expects it to be as it was.
func (s *scene) lookMore(claim string) {
	s.Helper()
	before := s.writes
	for range 5 {
		s.look(claim)
	}
	if s.writes != before || !s.has(claim) {
		s.Errorf("%d writes, claim there %t; want none, and the claim", s.writes-before, s.has(claim))
	}
}

// owned is a claim that a pod has.
func owned(name string) *ipamv1alpha1.IPClaim {
	return gen.Claim(name, gen.Created(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)),
		gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Pod", Namespace: "default", Name: name}))
}
