package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// scene is a claim controller with a real ledger, a platform and a tenant. With the objects of offered, the platform
// has the class "internal" and the pool "p", 10.0.0.0/24, for everybody.
type scene struct {
	*Reconciler
	*testing.T
	ledger *allocator.Allocator
	// The workspaces of the platform and of a tenant.
	platform, tenant *workspace
	servers          *alive
	now              *clocktesting.FakePassiveClock
	suspected        []ledger.Holder // the holders that failed answers have hinted at
}

// workspace notes each write.
type workspace struct {
	testbed.Workspace
	writes []string // verb and kind of each write
	denies bool     // its server knows no claim, whatever the cache shows
}

func newWorkspace(t *testing.T, objects ...client.Object) *workspace {
	t.Helper()
	w := &workspace{Workspace: testbed.Workspace{Events: events.NewFakeRecorder(16)}}
	note := func(verb string, obj client.Object) {
		w.writes = append(w.writes, fmt.Sprintf("%s %T", verb, obj))
	}
	w.Client = testbed.NewClient(t).WithObjects(objects...).
		WithStatusSubresource(&ipamv1alpha1.IPClaim{}).
		WithIndex(&ipamv1alpha1.IPPool{}, catalog.ByClass, catalog.IndexPoolByClass).
		WithIndex(&ipamv1alpha1.IPClass{}, catalog.ByDefault, catalog.IndexClassByDefault).
		WithIndex(&ipamv1alpha1.IPClass{}, catalog.ByParent, catalog.IndexClassByParent).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				note("create", obj)
				return c.Create(ctx, obj, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				note("patch", obj)
				return c.Patch(ctx, obj, patch, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				if w.denies {
					return apierrors.NewNotFound(ipamv1alpha1.GroupVersion.WithResource("ipclaims").GroupResource(), obj.GetName())
				}
				if claim, ok := obj.(*v1controller1.IPClaim); ok {
					obj = &claim.IPClaim // one object in two versions, which the fake does not know
				}
				note("patch "+name+" of", obj)
				claim := &ipamv1alpha1.IPClaim{ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
				if err := c.SubResource(name).Patch(ctx, claim, patch, opts...); err != nil {
					return err
				}
				return convert(claim, obj)
			},
		}).Build()
	return w
}

// convert makes an object, of whatever version, equal to the claim.
func convert(claim *ipamv1alpha1.IPClaim, into client.Object) error {
	text, err := json.Marshal(claim)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// alive plays releases. The test says whether the claim exists.
type alive struct {
	Releases
	claim    *ipamv1alpha1.IPClaim
	recorded bool
	gone     bool
	away     error
	missed   []string // claims that were reported as missed
	deleted  []string // claims that were reported as seen deleted
	settle   func(ledger.Holder)
}

func (a *alive) Published(context.Context, ledger.Holder) (*ipamv1alpha1.IPClaim, bool, error) {
	return a.claim, a.recorded, a.away
}

func (a *alive) Gone(context.Context, ledger.Holder) (bool, error) { return a.gone, nil }

func (a *alive) Settle(_ context.Context, h ledger.Holder) (bool, error) {
	a.settle(h)
	return true, nil
}

func (a *alive) Missed(h ledger.Holder, last *ipamv1alpha1.IPClaim) {
	a.missed = append(a.missed, h.Name+" "+last.ResourceVersion+" "+last.Status.AllocatedCIDR)
}

func (a *alive) Deleted(h ledger.Holder, last *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
	a.deleted = append(a.deleted, h.Name+" "+last.ResourceVersion)
}

func (a *alive) Alive(context.Context, ledger.Holder) (*ipamv1alpha1.IPClaim, error) {
	return a.claim, nil
}

func newScene(t *testing.T, options allocator.Options, platform []client.Object, tenant ...client.Object) *scene {
	t.Helper()
	return newSceneIn(t, testbed.Ledger(t, etcdtest.New(t).Client(), options), platform, tenant...)
}

func newSceneIn(t *testing.T, alloc *allocator.Allocator, platform []client.Object, tenant ...client.Object) *scene {
	t.Helper()
	s := &scene{
		T: t, servers: &alive{}, now: clocktesting.NewFakePassiveClock(time.Now()), platform: newWorkspace(t, platform...), tenant: newWorkspace(t, tenant...),
	}
	s.start(alloc)
	for _, object := range platform {
		if pool, ok := object.(*ipamv1alpha1.IPPool); ok {
			s.register(pool)
		}
	}
	return s
}

// start starts a controller with this ledger.
func (s *scene) start(alloc *allocator.Allocator) {
	known := directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"})
	known.Seen("endpoint", binding())
	clusters := testbed.Clusters{"": s.platform, "tenant": s.tenant}
	s.ledger = alloc
	s.Reconciler = &Reconciler{
		Options: Options{
			Ledger: views.Of(alloc), Releases: s.servers, Directory: known,
			Catalog:  &catalog.Catalog{Clusters: clusters, Directory: known, Rooms: alloc.Pools()},
			Compare:  func(context.Context, ledger.PoolID) (bool, error) { return false, nil },
			Sees:     func() error { return nil },
			Answers:  promise.NewAnswers(testbed.Stopped{PassiveClock: s.now}, func(h ledger.Holder) { s.suspected = append(s.suspected, h) }),
			Complete: func(context.Context, ledger.ClusterName, client.Object) (bool, error) { return true, nil },
		},
		clusters: clusters, started: func() time.Time { return time.Now().Add(-time.Hour) },
		memory: memory{clock: clock.RealClock{}}, formers: formers{clock: s.now}, clock: s.now, maker: record.Maker{Clock: s.now},
		limits: limits{answer: time.Minute, giveBack: time.Minute}, // a busy machine may take longer than a CREATE waits
	}
}

// offered returns the class and the pool of the platform.
func offered(options ...gen.ClassOption) []client.Object {
	class := gen.Class("internal", append([]gen.ClassOption{gen.DefaultLength(28)}, options...)...)
	return []client.Object{class, readyPool("p", "10.0.0.0/24", gen.Backs("internal"), gen.Visible(ipamv1alpha1.VisibilityPlatform))}
}

func readyPool(name string, cidr ipamv1alpha1.CIDR, options ...gen.PoolOption) *ipamv1alpha1.IPPool {
	pool := gen.Pool(name, append(options, gen.CIDR(cidr))...)
	pool.Status.AllocatedCIDR, pool.Status.IPFamily = string(cidr), ipamv1alpha1.IPv4
	outcome.Succeed(&pool.Status.Conditions, 1, "holds "+string(cidr))
	return pool
}

func (s *scene) register(pool *ipamv1alpha1.IPPool) {
	s.Helper()
	must.Get(s.ledger.Pools().Register(s.Context(), ledger.Pool{
		ID: ledger.PoolID(pool.UID), Cluster: "platform", Name: pool.Name, CIDR: netip.MustParsePrefix(string(pool.Spec.CIDR)),
	}))(s)
}

// binding returns the APIBinding of the tenant.
func binding() *apisv1alpha2.APIBinding {
	b := &apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{
		UID: "binding", Annotations: map[string]string{"kcp.io/cluster": "tenant", "kcp.io/path": "root:tenant"},
	}}
	conditions.MarkTrue(b, conditionsv1alpha1.ReadyCondition)
	return b
}

// create answers the CREATE of a claim of the tenant.
func (s *scene) create(claim *ipamv1alpha1.IPClaim) door.Answer {
	s.Helper()
	answer, err := s.Answer(s.Context(), door.Request{Cluster: "tenant", Claim: claim})
	if err != nil {
		s.Fatalf("Answer(%s): %v", claim.Name, err)
	}
	return answer
}

// id returns the allocation ID of an answer.
func id(answer door.Answer) string { return string(answer.Status.AllocationID) }

// later sets the controller's clock to the present time plus d. The ledger has a clock of its own, which shows the
// present time.
func (s *scene) later(d time.Duration) { s.now.SetTime(time.Now().Add(d)) }

// stored stores a claim with the status of an answer, as the API server does, and returns the claim as readers get it.
func (s *scene) stored(claim *ipamv1alpha1.IPClaim, answer door.Answer) *ipamv1alpha1.IPClaim {
	s.Helper()
	claim.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	claim.Status = answer.Status
	s.servers.claim = claim
	must.Do(s, s.tenant.Client.Create(s.Context(), bare(claim)))
	stored := claim.DeepCopy()
	must.Do(s, s.tenant.Client.Get(s.Context(), client.ObjectKeyFromObject(claim), stored))
	stored.Status = answer.Status
	must.Do(s, s.tenant.Client.Status().Update(s.Context(), stored))
	s.tenant.writes = nil
	return stored
}

func bare(claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
	claim = claim.DeepCopy()
	claim.ResourceVersion = ""
	return claim
}

// reconcile reconciles a claim of the tenant, and returns it as it then is.
func (s *scene) reconcile(name string) *ipamv1alpha1.IPClaim {
	s.Helper()
	if _, err := s.Reconcile(s.Context(), requestIn("tenant", name)); err != nil {
		s.Fatalf("Reconcile(%s): %v", name, err)
	}
	claim := gen.Claim(name)
	must.Do(s, s.tenant.Client.Get(s.Context(), client.ObjectKeyFromObject(claim), claim))
	return claim
}

func (s *scene) wantBlocks(want ...string) {
	s.Helper()
	testbed.WantBlocks(s, s.ledger, want...)
}
