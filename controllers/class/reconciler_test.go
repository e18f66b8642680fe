package class

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// reasons returns status and reason of the conditions Ready, Reconciling and Stalled; empty for a condition that is not
// there.
func reasons(class *ipamv1alpha1.IPClass) [3]string {
	var found [3]string
	for i, kind := range []string{ipamv1alpha1.ConditionReady, ipamv1alpha1.ConditionReconciling, ipamv1alpha1.ConditionStalled} {
		if c := meta.FindStatusCondition(class.Status.Conditions, kind); c != nil {
			found[i] = string(c.Status) + " " + c.Reason
		}
	}
	return found
}

func TestReport_SetsPhaseAndConditions(t *testing.T) {
	older := gen.Class("older", gen.Default(), gen.Created(time.Unix(1, 0)))
	for _, tt := range []struct {
		name  string
		class *ipamv1alpha1.IPClass
		phase ipamv1alpha1.ClassPhase
		want  [3]string
	}{
		{"sound", gen.Class("c"), ipamv1alpha1.ClassReady, [3]string{"True Validated", "", ""}},
		{
			"of another service", gen.Class("c", gen.Provisioner("example.com/other")), ipamv1alpha1.ClassError,
			[3]string{"False UnknownProvisioner", "", "True UnknownProvisioner"},
		},
		{
			"a second default", gen.Class("c", gen.Default(), gen.Created(time.Unix(2, 0))), ipamv1alpha1.ClassPending,
			[3]string{"False DefaultConflict", "True DefaultConflict", ""},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			class, away := tt.class, errors.New("the cache is away")
			must.Be(t, fail(class, away), away)
			if class.Status.Phase != ipamv1alpha1.ClassPending || reasons(class) != [3]string{"False Error", "True Error", ""} {
				t.Errorf("a class not looked at yet is %s with %q", class.Status.Phase, reasons(class))
			}
			refusal := check(class, []*ipamv1alpha1.IPClass{older, class})
			report(class, 1, refusal)
			if class.Status.Phase != tt.phase || reasons(class) != tt.want {
				t.Errorf("phase %s with %q, want %s with %q", class.Status.Phase, reasons(class), tt.phase, tt.want)
			}
			again := class.DeepCopy()
			report(again, 1, refusal)
			if !equality.Semantic.DeepEqual(class, again) {
				t.Error("a second look changes the status")
			}
			if err := fail(again, away); !errors.Is(err, away) || again.Status.Phase != tt.phase {
				t.Errorf("a fault makes the phase %s", again.Status.Phase)
			}
		})
	}
}

// A class has the version of the controller. Two controllers that both lead do not overwrite each other for ever.
func TestSign_StopsAfterAnotherControllerSigned(t *testing.T) {
	class := gen.Class("c")
	older, newer := &Reconciler{Options: Options{Version: "v1"}}, &Reconciler{Options: Options{Version: "v2"}}
	for i, step := range []struct {
		by   *Reconciler
		want string
	}{{older, "v1"}, {older, "v1"}, {newer, "v2"}, {older, "v2"}, {newer, "v2"}, {&Reconciler{Options: Options{Version: "v1"}}, "v1"}, {newer, "v1"}} {
		step.by.sign(class)
		if got := class.Annotations[ipamv1alpha1.AnnotationController]; got != step.want {
			t.Errorf("step %d: after %s the class says %q; want %q", i, step.by.Version, got, step.want)
		}
	}
}

// made are the pools that the system has made.
type made []ledger.Derived

func (m made) All() iter.Seq[ledger.Pool] {
	return func(yield func(ledger.Pool) bool) {
		for _, d := range m {
			if !yield(ledger.Pool{Derived: &d}) {
				return
			}
		}
	}
}

// chained returns a reconciler of a platform with a chain of classes, and a pool that backs the root class.
func chained(t *testing.T, ledger Derived, change func(map[string]*ipamv1alpha1.IPClass)) *Reconciler {
	t.Helper()
	v6 := gen.Family(ipamv1alpha1.IPv6)
	classes := map[string]*ipamv1alpha1.IPClass{
		"vpc":      gen.Class("vpc", v6, gen.DefaultLength(48), gen.PoolPer("project", "network")),
		"subnet":   gen.Class("subnet", v6, gen.Below("vpc"), gen.DefaultLength(64), gen.PoolPer("project", "network", "location")),
		"endpoint": gen.Class("endpoint", v6, gen.Below("subnet"), gen.DefaultLength(96)),
	}
	pool := gen.Pool("root", gen.CIDR("2001:db8::/40"), gen.Backs("vpc"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	pool.Status.IPFamily = ipamv1alpha1.IPv6
	meta.SetStatusCondition(&pool.Status.Conditions, metav1.Condition{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionTrue, Reason: "AllocationSucceeded"})
	change(classes)
	objects := []client.Object{pool}
	for _, class := range classes {
		objects = append(objects, class)
	}
	c := testbed.NewClient(t).WithObjects(objects...).WithStatusSubresource(&ipamv1alpha1.IPClass{}).
		WithIndex(&ipamv1alpha1.IPPool{}, catalog.ByClass, catalog.IndexPoolByClass).
		WithIndex(&ipamv1alpha1.IPClass{}, catalog.ByDefault, catalog.IndexClassByDefault).
		WithIndex(&ipamv1alpha1.IPClass{}, catalog.ByParent, catalog.IndexClassByParent).Build()
	known := directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"})
	shown := &catalog.Catalog{Clusters: testbed.Clusters{"": &testbed.Workspace{Client: c}}, Directory: known}
	return &Reconciler{Options: Options{Catalog: shown, Directory: known, Version: "v1", Ledger: ledger}, client: c}
}

// reconciled returns a class after a reconcile, and the time after which it is requeued.
func (r *Reconciler) reconciled(t *testing.T, name string) (*ipamv1alpha1.IPClass, time.Duration) {
	t.Helper()
	result, err := r.Reconcile(t.Context(), request(name))
	if err != nil {
		t.Fatalf("reconcile class %s: %v", name, err)
	}
	class := &ipamv1alpha1.IPClass{}
	must.Do(t, r.client.Get(t.Context(), client.ObjectKey{Name: name}, class))
	return class, result.RequeueAfter
}

// A class of a chain says which roles a claim must have, how many pools the class has made, and how many pools offer
// its root class. A class that every workspace can read does not say how many pools it has made: these are networks of
// others.
func TestReconcile_ReportsRolesAndPoolsOfAChain(t *testing.T) {
	r := chained(t, made{{Class: "vpc"}, {Class: "subnet"}, {Class: "subnet"}, {Of: "a"}}, func(classes map[string]*ipamv1alpha1.IPClass) {
		classes["subnet"].Spec.Consumers = []ipamv1alpha1.Consumer{"root:acme:*"}
	})
	for name, want := range map[string]struct {
		roles []string
		pools int32
		again time.Duration
	}{
		"vpc": {[]string{"network"}, 0, 0}, "subnet": {[]string{"location", "network"}, 2, recount}, "endpoint": {[]string{"location", "network"}, 0, 0},
	} {
		class, requeue := r.reconciled(t, name)
		s := class.Status
		if s.Phase != ipamv1alpha1.ClassReady || s.OfferingPools != 1 || s.ProvisionedPools != want.pools || !slices.Equal(s.RequiredScopeRoles, want.roles) || requeue != want.again {
			t.Errorf("class %s is %s, offered by %d, has made %d, requires %v, and is requeued after %s; want Ready, 1, %d, %v, %s",
				name, s.Phase, s.OfferingPools, s.ProvisionedPools, s.RequiredScopeRoles, requeue, want.pools, want.roles, want.again)
		}
	}
}

// If classes cannot share their only pool, they and the classes below them are not Ready, and say why. When one of them
// comes or goes, the others are requeued. Once each has a pool of its own, they are Ready again.
func TestReconcile_ReportsClassesThatCannotShareTheirPool(t *testing.T) {
	r := chained(t, made{}, func(classes map[string]*ipamv1alpha1.IPClass) {
		classes["vrf"] = gen.Class("vrf", gen.Family(ipamv1alpha1.IPv6), gen.DefaultLength(64), gen.UniqueWithin("network"))
	})
	pool := &ipamv1alpha1.IPPool{}
	must.Do(t, r.client.Get(t.Context(), client.ObjectKey{Name: "root"}, pool))
	pool.Spec.ClassNames = []string{"vpc", "vrf"}
	must.Do(t, r.client.Update(t.Context(), pool))
	says := func(phase ipamv1alpha1.ClassPhase, want [3]string, offering int32) {
		t.Helper()
		for _, name := range []string{"vpc", "endpoint", "vrf"} {
			class, _ := r.reconciled(t, name)
			if got := reasons(class); class.Status.Phase != phase || got != want || class.Status.OfferingPools != offering {
				t.Errorf("class %s is %s with %q, offered by %d; want %s with %q, by %d", name, class.Status.Phase, got, class.Status.OfferingPools, phase, want, offering)
			}
		}
	}
	says(ipamv1alpha1.ClassPending, [3]string{"False UniqueWithinDiffers", "True UniqueWithinDiffers", ""}, 0)
	woken := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(woken.ShutDown)
	r.onClass().Delete(t.Context(), event.DeleteEvent{Object: gen.Class("vrf")}, woken)
	if n := woken.Len(); n != 4 {
		t.Errorf("%d classes are reconciled when vrf goes; want itself, those beside it and those below", n)
	}
	other := pool.DeepCopy()
	other.ObjectMeta = gen.Pool("other").ObjectMeta
	must.Do(t, r.client.Create(t.Context(), other))
	for name := range map[string]bool{"root": true, "other": true} {
		must.Do(t, r.client.Get(t.Context(), client.ObjectKey{Name: name}, pool))
		pool.Spec.ClassNames = map[string][]string{"root": {"vpc"}, "other": {"vrf"}}[name]
		must.Do(t, r.client.Update(t.Context(), pool))
	}
	says(ipamv1alpha1.ClassReady, [3]string{"True Validated", "", ""}, 1)
}

// If a class of a chain is broken, it and each class below it are not Ready, and name the broken class. The classes
// above it are Ready.
func TestReconcile_NamesTheBrokenClassOfAChain(t *testing.T) {
	r := chained(t, made{}, func(classes map[string]*ipamv1alpha1.IPClass) { classes["subnet"].Spec.DefaultPrefixLength = 48 })
	for name, phase := range map[string]ipamv1alpha1.ClassPhase{"vpc": ipamv1alpha1.ClassReady, "subnet": ipamv1alpha1.ClassError, "endpoint": ipamv1alpha1.ClassError} {
		class, _ := r.reconciled(t, name)
		ready := meta.FindStatusCondition(class.Status.Conditions, ipamv1alpha1.ConditionReady)
		if class.Status.Phase != phase || phase == ipamv1alpha1.ClassError && (ready.Reason != string(ipamv1alpha1.ReasonChainBroken) ||
			!strings.HasPrefix(ready.Message, `class "subnet": it hands out a /48`) || class.Status.OfferingPools != 0) {
			t.Errorf("class %s is %s, offered by %d: %+v; want %s", name, class.Status.Phase, class.Status.OfferingPools, ready, phase)
		}
	}
}
