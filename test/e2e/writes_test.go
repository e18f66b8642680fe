package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A claim whose CREATE was answered costs one write, which creates its IPAllocation. It is not reconciled twice, and
// a controller that starts writes nothing for it. It also costs one write if it is reconciled again and again while
// it is being bound.
func TestWrites_AreOneForEachClaim(t *testing.T) {
	t.Parallel()
	const claims = 40
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	pools := map[string]*ipamv1alpha1.IPPool{}
	for _, name := range []string{"once", "woken"} {
		pools[name] = offer(t, platform, name, platform.CIDR(t))
		waitOffering(t, platform, name, 1)
	}
	tenant, other := platform.Tenant(t), platform.Tenant(t)
	spent := bind(t, claims, platform, tenant, pools["once"], func(int) {})
	// A few reconciles have other reasons, such as a cache that lags.
	if got := spent.passes; got["claim success"] >= 2*claims {
		t.Errorf("passes for %d claims: %v; want one for each", claims, got)
	}

	// While nothing happens, nothing is reconciled, however many pools there are.
	own := gen.Pool("own", gen.CIDR("2001:db8::/64"))
	framework.Allocate(t, tenant, own)
	waitRest(t, platform)
	platform.StopController(t)
	platform.StartController(t)
	waitIdle(t, platform, claims)
	waitRest(t, platform)
	if again := readMeters(t, platform); len(again.writes) != 0 {
		t.Errorf("a controller that starts and finds all done writes %v", again.writes)
	}

	waker := gen.Pool("waker", gen.CIDR("2001:db8::/64"), gen.Backs("woken"))
	framework.Allocate(t, other, waker)
	bind(t, claims, platform, other, pools["woken"], func(i int) {
		// A pool that might have served the claims wakes those that are being bound.
		framework.Update(t, other, waker, func(pool *ipamv1alpha1.IPPool) { pool.Labels = map[string]string{"turn": strconv.Itoa(i)} })
	})
}

// bind makes claims, and calls besides after each. It returns what the controller has spent until all are bound and
// it is idle. It fails the test unless that is one write for each claim, a second one if kcp did not get the answer
// to a CREATE in time, and some writes of the pool's status, but fewer than there are claims.
func bind(t *testing.T, claims int, platform *framework.Platform, tenant *framework.Tenant, pool *ipamv1alpha1.IPPool, besides func(i int)) meters {
	t.Helper()
	waitIdle(t, platform, 0)
	waitHeld(t, platform, pool, size())
	before := readMeters(t, platform)
	writesOfPool := watchPool(t, platform, pool)
	unanswered, began := 0, time.Now()
	for i := range claims {
		claim := gen.Claim(fmt.Sprintf("claim-%d", i), gen.OfClass(pool.Name), gen.Length(28))
		framework.Create(t, tenant, claim)
		if claim.Status.AllocatedCIDR == "" {
			unanswered++
		}
		besides(i)
	}
	blocks := boundBlocks(t, claims, tenant)
	waitHeld(t, platform, pool, size(blocks...))
	waitIdle(t, platform, claims)

	var spent meters
	var ofPool int
	// The pool's status follows the ledger a little later, so its last write may still come.
	framework.Eventually(t, "the writes to be as many as are needed", func(ctx context.Context) error {
		if err := platform.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		ofPool = writesOfPool(pool.ResourceVersion)
		spent = readMeters(t, platform).since(before)
		want := map[string]int{"POST 201": claims, "PATCH 200": ofPool + unanswered}
		if conflicts := spent.passes["pool requeue_after"]; conflicts != 0 {
			want["PATCH 409"] = conflicts
			want["PATCH 200"] += conflicts // after each conflict, an empty patch reads the pool again
		}
		if diff := cmp.Diff(want, spent.writes); diff != "" {
			return fmt.Errorf("%d claims, %d of them not answered, and %d writes of the pool (-want +got):\n%s", claims, unanswered, ofPool, diff)
		}
		return nil
	})
	if failed := spent.passes["claim error"]; failed != 0 {
		t.Errorf("%d passes over claims have failed", failed)
	}
	// If the machine is so slow that a claim takes as long as the delay of a status write, there may be a write for each
	// claim.
	if took := time.Since(began); ofPool == 0 || ofPool >= claims && took < time.Duration(claims)*time.Second/2 {
		t.Errorf("the pool was written %d times for %d claims in %s; want fewer", ofPool, claims, took)
	}
	return spent
}

// meters are the controller's own figures, as far as they are above zero.
type meters struct {
	writes map[string]int // requests that change something, by method and answer
	passes map[string]int // by controller and result
	busy   int            // reconciles that wait or are running, in all controllers
}

func readMeters(t *testing.T, platform *framework.Platform) meters {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := must.Get(parser.TextToMetricFamilies(strings.NewReader(platform.Metrics(t))))(t)
	m := meters{writes: map[string]int{}, passes: map[string]int{}}
	for name, family := range families {
		for _, metric := range family.Metric {
			labels := map[string]string{}
			for _, label := range metric.Label {
				labels[label.GetName()] = label.GetValue()
			}
			value := int(metric.GetCounter().GetValue() + metric.GetGauge().GetValue())
			switch {
			case value == 0:
			case name == "rest_client_requests_total" && labels["method"] != http.MethodGet:
				m.writes[labels["method"]+" "+labels["code"]] += value
			case name == "controller_runtime_reconcile_total":
				m.passes[labels["controller"]+" "+labels["result"]] += value
			case name == "workqueue_depth", name == "controller_runtime_active_workers":
				m.busy += value
			}
		}
	}
	return m
}

// since returns the difference to earlier meters.
func (m meters) since(before meters) meters {
	return meters{writes: minus(m.writes, before.writes), passes: minus(m.passes, before.passes), busy: m.busy}
}

func minus(now, before map[string]int) map[string]int {
	rest := map[string]int{}
	for key, value := range now {
		if value != before[key] {
			rest[key] = value - before[key]
		}
	}
	return rest
}

// waitIdle waits until the controller has made that many passes over claims, and is idle.
func waitIdle(t *testing.T, platform *framework.Platform, passes int) {
	t.Helper()
	framework.Eventually(t, "the controller to be idle", func(context.Context) error {
		if m := readMeters(t, platform); m.busy != 0 || m.passes["claim success"] < passes {
			return fmt.Errorf("it is at %+v", m)
		}
		return nil
	})
}

// waitRest waits until the controller has reconciled nothing for two seconds. Even an idle controller may reconcile a
// pool: it does so three times a second while the pool changes.
func waitRest(t *testing.T, platform *framework.Platform) {
	t.Helper()
	framework.Eventually(t, "the controller to rest", func(ctx context.Context) error {
		before := readMeters(t, platform)
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		if passes := readMeters(t, platform).since(before).passes; len(passes) > 0 {
			return fmt.Errorf("in two seconds in which nothing happened it made these passes: %v", passes)
		}
		return nil
	})
}

// watchPool watches a pool from now on. The returned function tells how many writes the pool had until it reached a
// resource version, which it must reach, or have reached since the last call.
func watchPool(t *testing.T, platform *framework.Platform, pool *ipamv1alpha1.IPPool) func(resourceVersion string) int {
	t.Helper()
	watcher := must.Get(platform.Watch(t.Context(), &ipamv1alpha1.IPPoolList{}, &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", pool.Name),
		Raw:           &metav1.ListOptions{ResourceVersion: pool.ResourceVersion},
	}))(t)
	t.Cleanup(watcher.Stop)
	writes, last := 0, pool.ResourceVersion
	return func(resourceVersion string) int {
		for last != resourceVersion {
			event, ok := <-watcher.ResultChan()
			if !ok {
				t.Fatalf("the watch on pool %s has ended", pool.Name)
			}
			if event.Type != watch.Modified {
				t.Fatalf("pool %s: %s", pool.Name, event.Type)
			}
			writes++
			last = event.Object.(*ipamv1alpha1.IPPool).ResourceVersion
		}
		return writes
	}
}

// The first interface of a network, two levels below the platform's pool, costs three objects (two IPPools and the
// IPAllocation) and the statuses of the IPPools. Each status is written with the CREATE, and again with the pool's
// figures.
func TestWrites_AreFewForANewNetwork(t *testing.T) {
	t.Parallel()
	const networks = 10
	platform, tenant, _ := alone(t)
	v6 := gen.Family(ipamv1alpha1.IPv6)
	framework.Create(t, platform,
		gen.Class("vpc", v6, gen.DefaultLength(48), gen.PoolPer("network", ipamv1alpha1.RoleProject)),
		gen.Class("subnet", v6, gen.DefaultLength(64), gen.Below("vpc"), gen.PoolPer("network", "location", ipamv1alpha1.RoleProject)),
		gen.Class("endpoint", v6, gen.DefaultLength(96), gen.Below("subnet")), platformPool("vpc", "2001:db8::/32", "vpc"))
	serves(t, tenant, gen.OfClass("endpoint"), gen.Within("network", "probe", "location", "probe"))
	waitRest(t, platform)
	before := readMeters(t, platform)
	for i := range networks {
		within := gen.Within("network", fmt.Sprintf("network-%d", i), "location", "ams")
		// With Refuse, the default of such a class, a CREATE fails if it takes longer than kcp waits for the webhook.
		claim := gen.Claim(fmt.Sprintf("claim-%d", i), gen.OfClass("endpoint"), within, gen.Unmet(ipamv1alpha1.UnmetWait))
		framework.Create(t, tenant, claim)
	}
	framework.Eventually(t, "all objects to be made", func(ctx context.Context) error {
		pools, records := &ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPAllocationList{}
		if err := errors.Join(tenant.List(ctx, pools), tenant.List(ctx, records)); err != nil {
			return err
		}
		for i := range pools.Items {
			if pools.Items[i].Status.AllocatedCIDR == "" {
				return fmt.Errorf("pool %s has no status", pools.Items[i].Name)
			}
		}
		if len(pools.Items) != 2*networks || len(records.Items) != networks {
			return fmt.Errorf("there are %d pools and %d records, want %d and %d", len(pools.Items), len(records.Items), 2*networks, networks)
		}
		return nil
	})
	// A CREATE whose answer is lost on the way has stored its object, but is not counted.
	if made := readMeters(t, platform).since(before).writes["POST 201"]; made > 3*networks {
		t.Errorf("%d objects were made, want %d", made, 3*networks)
	}
	// There is one patch for each IPPool, for the root pool and for each class, and a second one for an IPPool whose
	// CREATE took long.
	if patched := readMeters(t, platform).since(before).writes["PATCH 200"]; patched >= 6*networks {
		t.Errorf("%d patches for %d networks, want less than %d", patched, networks, 6*networks)
	}
}

// alone returns a platform with its own controller, a tenant, and a pool of the platform behind a class with the same
// name.
func alone(t *testing.T) (*framework.Platform, *framework.Tenant, *ipamv1alpha1.IPPool) {
	t.Helper()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t))
	waitOffering(t, platform, name, 1)
	return platform, platform.Tenant(t), pool
}
