package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/cidr"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// scene is a platform and a tenant. A class and a pool of the platform are to have the name in the field name.
type scene struct {
	*testing.T
	platform *framework.Platform
	tenant   *framework.Tenant
	name     string
	cidr     ipamv1alpha1.CIDR
}

// newScene returns a scene on the shared platform, with a new tenant.
func newScene(t *testing.T) scene {
	t.Helper()
	platform := framework.SharedPlatform(t)
	return scene{T: t, platform: platform, tenant: platform.Tenant(t), name: framework.Name(t), cidr: platform.CIDR(t)}
}

// class makes the class of the scene.
func (s scene) class(options ...gen.ClassOption) *ipamv1alpha1.IPClass {
	class := gen.Class(s.name, options...)
	framework.Create(s, s.platform, class)
	return class
}

// pool makes a pool of the platform that backs the scene's class, and waits until it is ready.
func (s scene) pool(cidr ipamv1alpha1.CIDR) *ipamv1alpha1.IPPool {
	pool := platformPool(s.name, cidr, s.name)
	framework.Allocate(s, s.platform, pool)
	serves(s.T, s.tenant, gen.OfClass(s.name))
	return pool
}

// ownPool makes a pool of the tenant, and waits until it is ready.
func (s scene) ownPool(options ...gen.PoolOption) *ipamv1alpha1.IPPool {
	pool := gen.Pool("own", options...)
	framework.Allocate(s, s.tenant, pool)
	serves(s.T, s.tenant, gen.FromPool(pool.Name))
	return pool
}

// serves waits until the controller knows that a pool is ready, for which claims ask in this way. The controller
// knows it a moment after the pool shows it: until then, claims are answered as if there were no pool.
func serves(t *testing.T, tenant client.Client, by ...gen.ClaimOption) {
	t.Helper()
	framework.Eventually(t, "claims to be served by the new pool", func(ctx context.Context) error {
		probe := gen.Claim("probe", append(by, gen.Unmet(ipamv1alpha1.UnmetWait))...)
		if err := tenant.Create(ctx, probe, client.DryRunAll); err != nil {
			return err
		}
		allocated := meta.FindStatusCondition(probe.Status.Conditions, ipamv1alpha1.ConditionAllocated)
		if allocated == nil || allocated.Reason == string(ipamv1alpha1.ReasonPoolNotFound) || allocated.Reason == string(ipamv1alpha1.ReasonNoOfferingPool) {
			return fmt.Errorf("a claim would be answered with %+v", allocated)
		}
		return nil
	})
}

// holds makes a claim of the tenant by the scene's class, and waits until it is bound.
func (s scene) holds(name string, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
	claim := gen.Claim(name, append(options, gen.OfClass(s.name))...)
	framework.Bind(s, s.tenant, claim)
	return claim
}

// changeClass changes the class of the scene.
func (s scene) changeClass(change func(*ipamv1alpha1.IPClassSpec)) {
	framework.Change(s, s.platform, gen.Class(s.name), func(class *ipamv1alpha1.IPClass) { change(&class.Spec) })
}

// changePool changes the scene's pool of the platform.
func (s scene) changePool(change func(*ipamv1alpha1.IPPoolSpec)) {
	framework.Change(s, s.platform, gen.Pool(s.name), func(pool *ipamv1alpha1.IPPool) { change(&pool.Spec) })
}

// showsRefusal fails the test unless a waiting claim says why it waits, in its message and in its conditions.
func showsRefusal(t *testing.T, claim *ipamv1alpha1.IPClaim, says string, stalled bool) {
	t.Helper()
	status := claim.Status
	if status.Phase != ipamv1alpha1.ClaimPending || status.AllocatedCIDR != "" || status.BoundAllocationRef != nil {
		t.Errorf("the status of a claim that waits is %+v", status)
	}
	saysWhy(t, status.Conditions, says, stalled)
}

// saysWhy fails the test unless the conditions are those of a refusal with this message.
func saysWhy(t *testing.T, conditions []metav1.Condition, says string, stalled bool) {
	t.Helper()
	allocated := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionAllocated)
	if !strings.Contains(allocated.Message, says) {
		t.Errorf("the message is %q; want it to say %q", allocated.Message, says)
	}
	for kind, want := range map[string]metav1.ConditionStatus{
		ipamv1alpha1.ConditionReady:       metav1.ConditionFalse,
		ipamv1alpha1.ConditionReconciling: present(!stalled),
		ipamv1alpha1.ConditionStalled:     present(stalled),
	} {
		condition := meta.FindStatusCondition(conditions, kind)
		if condition == nil && want == "" {
			continue
		}
		if condition == nil || condition.Status != want || condition.Reason != allocated.Reason {
			t.Errorf("condition %s is %+v; want status %q and the reason of Allocated", kind, condition, want)
		}
	}
}

// present returns the status of a condition that exists only while it is true.
func present(is bool) metav1.ConditionStatus {
	if is {
		return metav1.ConditionTrue
	}
	return ""
}

// blockOf returns the block that a bound claim shows.
func blockOf(t *testing.T, claim *ipamv1alpha1.IPClaim) netip.Prefix {
	t.Helper()
	block, err := netip.ParsePrefix(claim.Status.AllocatedCIDR)
	if err != nil {
		t.Fatalf("allocatedCIDR of claim %s: %v", claim.Name, err)
	}
	if block.String() != claim.Status.AllocatedCIDR || block != block.Masked() {
		t.Errorf("allocatedCIDR of claim %s is %s; want it canonical: %s", claim.Name, claim.Status.AllocatedCIDR, block.Masked())
	}
	return block
}

// disjointIn fails the test unless the blocks are all inside the pool and share no address.
func disjointIn(t *testing.T, cidr ipamv1alpha1.CIDR, blocks ...netip.Prefix) {
	t.Helper()
	pool := prefix(cidr)
	blocks = slices.SortedFunc(slices.Values(blocks), netip.Prefix.Compare)
	for i, block := range blocks {
		if !pool.Contains(block.Addr()) || block.Bits() < pool.Bits() {
			t.Errorf("%s is not inside %s", block, pool)
		}
		if i > 0 && blocks[i-1].Overlaps(block) {
			t.Errorf("%s and %s are both given out", blocks[i-1], block)
		}
	}
}

func prefix(cidr ipamv1alpha1.CIDR) netip.Prefix { return netip.MustParsePrefix(string(cidr)) }

// size returns the number of addresses in the blocks.
func size(blocks ...netip.Prefix) *big.Int {
	sum := new(big.Int)
	for _, block := range blocks {
		sum.Add(sum, cidr.Size(block))
	}
	return sum
}

// offer makes a pool of the platform for everybody, behind a class with the pool's name, and waits until claims can
// get blocks from it.
func offer(t *testing.T, platform *framework.Platform, name string, cidr ipamv1alpha1.CIDR, options ...gen.ClassOption) *ipamv1alpha1.IPPool {
	t.Helper()
	framework.Create(t, platform, gen.Class(name, options...))
	pool := platformPool(name, cidr, name)
	framework.Allocate(t, platform, pool)
	return pool
}

// platformPool returns a pool for every workspace.
func platformPool(name string, cidr ipamv1alpha1.CIDR, classes ...string) *ipamv1alpha1.IPPool {
	return gen.Pool(name, gen.CIDR(cidr), gen.Backs(classes...), gen.Visible(ipamv1alpha1.VisibilityPlatform))
}

// waitHeld waits until the status of a pool shows exactly that many addresses as allocated, and all others as
// available.
func waitHeld(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool, addresses *big.Int) {
	t.Helper()
	framework.WaitFor(t, c, pool, func(pool *ipamv1alpha1.IPPool) error {
		block, err := netip.ParsePrefix(cmp.Or(string(pool.Spec.CIDR), pool.Status.AllocatedCIDR))
		if err != nil {
			return err
		}
		total := size(block)
		want := ipamv1alpha1.PoolCapacity{
			Total:     total.String(),
			Allocated: addresses.String(),
			Available: new(big.Int).Sub(total, addresses).String(),
		}
		if pool.Status.Capacity == nil || *pool.Status.Capacity != want {
			return fmt.Errorf("its capacity is not %+v", want)
		}
		return nil
	})
}

// waitEvent waits for an event with a reason about an object, in its namespace or, if it has none, in default.
func waitEvent(t *testing.T, c client.Reader, about client.Object, reason ipamv1alpha1.Reason) {
	t.Helper()
	framework.Eventually(t, "the event "+string(reason), func(ctx context.Context) error {
		events := &corev1.EventList{}
		err := c.List(ctx, events, client.InNamespace(cmp.Or(about.GetNamespace(), metav1.NamespaceDefault)))
		if err == nil && !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == about.GetUID() && e.Reason == string(reason)
		}) {
			err = fmt.Errorf("it is not among %d events", len(events.Items))
		}
		return err
	})
}

// part returns the first block of that length in a CIDR.
func part(cidr ipamv1alpha1.CIDR, length int) ipamv1alpha1.CIDR {
	return ipamv1alpha1.CIDR(netip.PrefixFrom(prefix(cidr).Addr(), length).String())
}

// sweeping makes a controller look for orphans all the time, so that a test need not wait long for a sweep that would
// do harm.
var sweeping = []string{"--sweep-interval=500ms", "--orphan-min-age=1s"}

// bindSome makes count claims of a class, and waits until they are bound.
func bindSome(t *testing.T, tenant *framework.Tenant, class, name string, count int, options ...gen.ClaimOption) []*ipamv1alpha1.IPClaim {
	t.Helper()
	claims := make([]*ipamv1alpha1.IPClaim, count)
	for i := range claims {
		claims[i] = gen.Claim(fmt.Sprintf("%s-%d", name, i), append(options, gen.OfClass(class), gen.Length(28))...)
		framework.Create(t, tenant, claims[i])
	}
	framework.WaitBound(t, tenant, claims...)
	return claims
}

func blocksOf(t *testing.T, claims ...*ipamv1alpha1.IPClaim) []netip.Prefix {
	t.Helper()
	blocks := make([]netip.Prefix, len(claims))
	for i, claim := range claims {
		blocks[i] = blockOf(t, claim)
	}
	return blocks
}

// boundBlocks waits until each tenant has that many claims, and all of them are bound and recorded. It returns their
// blocks. It fails the test if a block does not have the requested length, or if the records of a tenant are not
// those of its claims.
func boundBlocks(t *testing.T, each int, tenants ...*framework.Tenant) []netip.Prefix {
	t.Helper()
	var blocks []netip.Prefix
	for _, tenant := range tenants {
		claims := &ipamv1alpha1.IPClaimList{}
		framework.Eventually(t, fmt.Sprintf("%d bound claims in %s", each, tenant.Path), func(ctx context.Context) error {
			if err := tenant.List(ctx, claims); err != nil {
				return err
			}
			if bound := countBound(claims); bound != each || len(claims.Items) != each {
				return fmt.Errorf("there are %d, of %d claims", bound, len(claims.Items))
			}
			return nil
		})
		recorded := recordsByClaim(t, tenant, each)
		for i := range claims.Items {
			claim := &claims.Items[i]
			block := blockOf(t, claim)
			if block.Bits() != int(claim.Spec.PrefixLength) {
				t.Errorf("claim %s got %s", claim.Name, block)
			}
			if recorded[claim.Name] != block.String() {
				t.Errorf("claim %s has %s, recorded is %q", claim.Name, block, recorded[claim.Name])
			}
			blocks = append(blocks, block)
		}
		if len(recorded) != each {
			t.Errorf("%s has %d records of %d claims", tenant.Path, len(recorded), each)
		}
	}
	return blocks
}

func countBound(claims *ipamv1alpha1.IPClaimList) int {
	bound := 0
	for _, claim := range claims.Items {
		if claim.Status.Phase == ipamv1alpha1.ClaimBound {
			bound++
		}
	}
	return bound
}

// recordsByClaim waits for that many IPAllocations in a workspace, and returns their blocks by the names of their
// claims.
func recordsByClaim(t *testing.T, c client.Reader, want int) map[string]string {
	t.Helper()
	records := &ipamv1alpha1.IPAllocationList{}
	framework.Eventually(t, "the records of the claims", func(ctx context.Context) error {
		if err := c.List(ctx, records); err != nil {
			return err
		}
		if len(records.Items) < want {
			return fmt.Errorf("there are %d, want %d", len(records.Items), want)
		}
		return nil
	})
	recorded := map[string]string{}
	for _, record := range records.Items {
		if record.Spec.ClaimRef == nil {
			t.Errorf("IPAllocation %s names no claim", record.Name)
			continue
		}
		recorded[record.Spec.ClaimRef.Name] = record.Status.AllocatedCIDR
	}
	return recorded
}
