package claim

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// keep stores a claim of the tenant with the unmetPolicy Wait, and without an answer to its CREATE.
func (n *networks) keep(claim *ipamv1alpha1.IPClaim) {
	n.Helper()
	claim.Spec.UnmetPolicy = ipamv1alpha1.UnmetWait
	claim.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	must.Do(n, n.tenant.Client.Create(n.Context(), bare(claim)))
}

// A claim needs a network, and the root is too full to make it. The claim is in no waiting list of the ledger. It is
// woken when a pool that was made for a class of its chain changes, in its own workspace or in that of the platform. A
// pool in any other workspace does not wake it. Once the root has room, the claim is bound.
func TestChain_WaitsUntilItsPoolsCanBeMade(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/48", ipamv1alpha1.RoleProject)
	first := n.create(scoped("c", endpoint, "net", "ams"))
	n.keep(scoped("w", endpoint, "other", "ams"))
	noted := noteWaits(&n.Ledger)
	if now := n.reconcile("w"); now.Status.Phase != ipamv1alpha1.ClaimPending || noted.count("uid-of-root") != 0 {
		t.Errorf("the claim is %+v, and %d claims wait at the root; want it Pending, and none", now.Status, noted.count("uid-of-root"))
	}
	object := gen.Pool("any")
	object.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: vpc}
	for cluster, want := range map[ledger.ClusterName]bool{"tenant": true, "platform": true, "elsewhere": false} {
		if woken := n.waiting.wake(topicsOfPool(cluster, object)...); slices.Contains(woken, requestIn("tenant", "w")) != want {
			t.Errorf("woken are %v when a pool of the class goes in workspace %s; want the claim: %t", woken, cluster, want)
		}
	}
	must.Do(t, n.ledger.Release(t.Context(), ledger.ClaimID(id(first))))
	for _, class := range []string{subnet, vpc} {
		must.Do(t, n.ledger.Pools().Retire(t.Context(), n.made(class).ID))
	}
	if now := n.reconcile("w"); now.Status.AllocatedCIDR != first.Status.AllocatedCIDR {
		t.Errorf("the claim is %+v once the root has room; want %s", now.Status, first.Status.AllocatedCIDR)
	}
}

// A claim that finds the last pool of its chain full waits for room in this pool.
func TestChain_WaitsInItsPool(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	n.create(scoped("c", endpoint, "net", "ams"))
	full := n.made(subnet)
	waits := scoped("w", endpoint, "net", "ams")
	waits.Spec.PrefixLength = 65
	rival := ledger.Holder{Claim: "rival", Cluster: "tenant", Namespace: "default", Name: "r"}
	must.Get(n.ledger.Bind(t.Context(), ledger.Request{Pool: full.ID, Length: 65, Holder: rival}))(t)
	n.keep(waits)
	noted := noteWaits(&n.Ledger)
	if now := n.reconcile("w"); now.Status.Phase != ipamv1alpha1.ClaimPending || noted.count(full.ID) != 1 {
		t.Errorf("the claim is %+v, and %d claims wait in its pool; want it Pending, and one", now.Status, noted.count(full.ID))
	}
}

// The limit of a class for one workspace counts the pools of this class in the workspace: a claim that needs one more
// pool is refused.
func TestChain_LimitsItsPools(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	class := &ipamv1alpha1.IPClass{}
	must.Do(t, n.platform.Client.Get(t.Context(), client.ObjectKey{Name: vpc}, class))
	class.Spec.MaxPerConsumer = ipamv1alpha1.AddressCount(new(big.Int).Lsh(big.NewInt(1), 80).String())
	must.Do(t, n.platform.Client.Update(t.Context(), class))
	n.create(scoped("c", endpoint, "net", "ams"))
	n.create(scoped("d", endpoint, "net", "fra"))
	answer := n.create(scoped("e", endpoint, "other", "ams"))
	if reason, message := reasonOf(answer); reason != ipamv1alpha1.ReasonQuotaExceeded || !answer.Refuse || !strings.Contains(message, `"vpc"`) {
		t.Errorf("answered %s: %s, want QuotaExceeded by class vpc", reason, message)
	}
}

// The limit of a root pool for one workspace does not bound pools that all workspaces share: the platform has them.
func TestChain_LimitsNoSharedPools(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleAllProjects)
	root := &ipamv1alpha1.IPPool{}
	must.Do(t, n.platform.Client.Get(t.Context(), client.ObjectKey{Name: "root"}, root))
	root.Spec.MaxPerConsumer = ipamv1alpha1.AddressCount(new(big.Int).Lsh(big.NewInt(1), 80).String())
	must.Do(t, n.platform.Client.Update(t.Context(), root))
	for _, network := range []string{"net", "other"} {
		answer := n.create(scoped("in-"+network, endpoint, network, "ams"))
		if reason, message := reasonOf(answer); reason != ipamv1alpha1.ReasonAllocationSucceeded {
			t.Errorf("a claim in network %s is answered %s: %s, want it bound", network, reason, message)
		}
	}
}

// A class that was deleted and made again uses the pools of the former class of its name. If the new class would make
// different pools, claims that need these pools are refused. A class that was only edited still uses its pools.
func TestChain_RefusesUnfitPoolsOfAFormerClass(t *testing.T) {
	t.Parallel()
	again := func(c *ipamv1alpha1.IPClass) { c.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Hour)) }
	longer := func(c *ipamv1alpha1.IPClass) { c.Spec.DefaultPrefixLength++ }
	for name, tt := range map[string]struct {
		class   string
		changes []func(*ipamv1alpha1.IPClass)
		want    ipamv1alpha1.Reason
	}{
		"as it was":            {subnet, []func(*ipamv1alpha1.IPClass){again}, ipamv1alpha1.ReasonAllocationSucceeded},
		"edited":               {subnet, []func(*ipamv1alpha1.IPClass){longer}, ipamv1alpha1.ReasonAllocationSucceeded},
		"with another length":  {subnet, []func(*ipamv1alpha1.IPClass){again, longer}, ipamv1alpha1.ReasonChainBroken},
		"without its parent":   {subnet, []func(*ipamv1alpha1.IPClass){again, func(c *ipamv1alpha1.IPClass) { c.Spec.ParentClassName = "" }}, ipamv1alpha1.ReasonChainBroken},
		"with another tenancy": {vpc, []func(*ipamv1alpha1.IPClass){again, func(c *ipamv1alpha1.IPClass) { c.Spec.PoolPer[0] = ipamv1alpha1.RoleAllProjects }}, ipamv1alpha1.ReasonChainBroken},
	} {
		root := readyPool("other", "2001:db9::/32", gen.Backs(subnet), gen.Visible(ipamv1alpha1.VisibilityPlatform))
		root.Status.IPFamily = ipamv1alpha1.IPv6
		n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject, root)
		first := n.create(scoped("c", endpoint, "net", "ams"))
		class := &ipamv1alpha1.IPClass{}
		must.Do(t, n.platform.Client.Get(t.Context(), client.ObjectKey{Name: tt.class}, class))
		for _, change := range tt.changes {
			change(class)
		}
		must.Do(t, n.platform.Client.Update(t.Context(), class))
		answer := n.create(scoped("d", endpoint, "net", "ams"))
		if reason, message := reasonOf(answer); reason != tt.want || tt.want == ipamv1alpha1.ReasonChainBroken && !answer.Refuse {
			t.Errorf("%s: answered %s: %s, want %s; the former claim has %s", name, reason, message, tt.want, first.Status.AllocatedCIDR)
		}
	}
}

// An address outside of the pool for the claim's scope is refused as AddressOutOfRange.
func TestChain_RefusesAnAddressOutsideOfItsPool(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	for address, want := range map[string]ipamv1alpha1.Reason{
		"2001:db8:0:1::/96": ipamv1alpha1.ReasonAddressOutOfRange, "2001:db8::/96": ipamv1alpha1.ReasonAddressReserved, "2001:db8::5:0:0/96": ipamv1alpha1.ReasonAllocationSucceeded,
	} {
		claim := scoped("c-"+strings.Trim(strings.NewReplacer(":", "-", "/", "-").Replace(address), "-"), endpoint, "net", "ams")
		claim.Spec.Address = address
		if reason, message := reasonOf(n.create(claim)); reason != want {
			t.Errorf("%s is answered %s: %s, want %s", address, reason, message, want)
		}
	}
}

// A claim whose pool is retired between two steps makes the pool again.
func TestChain_BeginsAgainWhenItsPoolGoes(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	d := &decision{r: n.Reconciler, claim: scoped("c", endpoint, "net", "ams"), from: n.Directory.Workspace("tenant"), waits: nothing{}}
	d.holder = ledger.Holder{Claim: promise.NewID("tenant", "default", "c"), Cluster: "tenant", Namespace: "default", Name: "c"}
	times := 0
	d.ask = func(ctx context.Context, req ledger.Request) (ledger.Block, error) {
		if times++; times < attempts {
			must.Do(t, n.ledger.Pools().Retire(ctx, req.Pool))
		}
		return n.ledger.Bind(ctx, req)
	}
	block, err := d.place(t.Context())
	if err != nil || times != attempts || block.Pool != n.made(subnet).ID {
		t.Errorf("place = %+v, %v at attempt %d; want a block of the pool that was made last", block, err, times)
	}
}

// A claim reuses the block that a former claim of its name has retained in the same network. In another network it does
// not get the block.
func TestChain_ReusesARetainedBlockInItsNetwork(t *testing.T) {
	t.Parallel()
	for network, given := range map[string]bool{"net": true, "other": false} {
		n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
		former := scoped("c", endpoint, "net", "ams")
		former.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
		answer := n.create(former)
		n.stored(former, answer)
		n.reconcile("c")
		block, _, err := n.ledger.Retained().Retain(t.Context(), ledger.ClaimID(id(answer)), time.Time{})
		must.Do(t, err)
		record := gen.Allocation("c", "", "")
		must.Do(t, n.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(record), record))
		record.Spec.ClaimRef = nil
		metav1.SetMetaDataAnnotation(&record.ObjectMeta, ipamv1alpha1.AnnotationRetainedFrom, "c/uid-of-c/"+id(answer))
		must.Do(t, n.tenant.Client.Update(t.Context(), record))
		must.Do(t, n.tenant.Client.Delete(t.Context(), bare(former)))
		later := scoped("c", endpoint, network, "ams")
		later.Spec.RetainedPolicy = ipamv1alpha1.RetainedReuse
		later.Spec.UnmetPolicy = ipamv1alpha1.UnmetWait
		n.stored(later, n.create(later))
		t.Cleanup(func() { unmet.remove(requestIn("tenant", "c")) })
		if now := n.reconcile("c"); (now.Status.AllocatedCIDR == block.Prefix.String()) != given {
			t.Errorf("a claim in network %s has %q, %s; want %s: %t", network, now.Status.AllocatedCIDR, messageOf(now.Status), block.Prefix, given)
		}
	}
}

// A CREATE that fails because its IPPool cannot be published leaves the pools that it made, and no block in them. The
// next CREATE of the name is answered at once.
func TestChain_LeavesNoBlockWhenItFails(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	n.fails = errors.New("kcp is away")
	claim := scoped("c", endpoint, "net", "ams")
	if answer, err := n.answered("tenant", claim); !errors.Is(err, n.fails) || !answer.Refuse {
		t.Errorf("answered %+v, %v; want a refusal for %v", answer, err, n.fails)
	}
	ofClaim := func(block string) bool { return !ledger.IsDerived(block[strings.LastIndexByte(block, ' ')+1:]) }
	if got := testbed.Blocks(t, n.ledger); slices.ContainsFunc(got, ofClaim) {
		t.Errorf("the ledger has %v, want the pools alone", got)
	}
	n.fails = nil
	if answer := n.create(claim); answer.Status.AllocatedCIDR == "" {
		t.Errorf("answered %+v, want a block", answer)
	}
}

// A workspace that has MaxPools pools gets no further pool that all workspaces share, and no further address space. Its
// pools still serve its claims, and other workspaces still get pools.
func TestChain_LimitsThePoolsOfAWorkspace(t *testing.T) {
	t.Parallel()
	const overlay = "overlay"
	flat := gen.Class(overlay, gen.DefaultLength(32), gen.UniqueWithin("network"))
	pool := readyPool("flat", "10.9.0.0/16", gen.Backs(overlay), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	for class, location := range map[string]string{endpoint: "ams", overlay: ""} {
		n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleAllProjects, flat, pool)
		if class == overlay {
			n.register(pool)
		}
		first := n.create(scoped("c", class, "net", location))
		n.MaxPools = n.ledger.Pools().Count("tenant")
		if reason, message := reasonOf(n.create(scoped("d", class, "other", location))); reason != ipamv1alpha1.ReasonQuotaExceeded || !strings.Contains(message, "limit of a workspace") {
			t.Errorf("%s: the next network is answered %s: %s, want QuotaExceeded", class, reason, message)
		}
		second := n.create(scoped("e", class, "net", location))
		if first.Status.AllocatedCIDR == "" || second.Status.AllocatedCIDR == "" || n.MaxPools == 0 {
			t.Errorf("%s: the network that is there is answered %+v and %+v, with %d pools counted; want a block of each", class, first.Status, second.Status, n.MaxPools)
		}
		theirs, err := n.answered("platform", scoped("f", class, "theirs", location))
		if err != nil || theirs.Status.AllocatedCIDR == "" {
			t.Errorf("%s: a network of the platform is answered %+v, %v; want a block", class, theirs.Status, err)
		}
	}
}

// There are more root pools than a claim asks, and only the last one has room. The first pool of the chain is made
// there.
func TestChain_FindsTheLastOfManyRoots(t *testing.T) {
	t.Parallel()
	var more []client.Object
	for i := range mostAsked {
		root := readyPool(fmt.Sprintf("root-%03d", i), ipamv1alpha1.CIDR(fmt.Sprintf("2001:db8:%x::/48", i+1)), gen.Backs(vpc), gen.Visible(ipamv1alpha1.VisibilityPlatform))
		root.Status.IPFamily = ipamv1alpha1.IPv6
		more = append(more, root)
	}
	n := newNetworks(t, "2001:db8::/48", ipamv1alpha1.RoleProject, more...)
	n.takes("uid-of-root", "2001:db8::/48")
	for i := range mostAsked - 1 {
		n.takes(ledger.PoolID(more[i].GetUID()), fmt.Sprintf("2001:db8:%x::/48", i+1))
	}
	got := n.create(scoped("c", endpoint, "net", "ams")).Status
	if last := fmt.Sprintf("2001:db8:%x::/48", mostAsked); !within(got.AllocatedCIDR, last) {
		t.Errorf("answered %+v, want a block in %s, the only root with room", got, last)
	}
}

// A claim is refused because its class does not fit another class with the same parent or the same pool. When the other
// class is deleted, the claim is woken, and bound.
func TestChain_WaitsForAClassThatItDoesNotName(t *testing.T) {
	t.Parallel()
	beside := gen.Class("beside", gen.DefaultLength(96), gen.Family(ipamv1alpha1.IPv6), gen.UniqueWithin("network"), gen.Below(subnet))
	apart := gen.Class("apart", gen.DefaultLength(28), gen.UniqueWithin("network"))
	both := readyPool("both", "10.0.0.0/24", gen.Backs("flat", "apart"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	for class, other := range map[string]*ipamv1alpha1.IPClass{endpoint: beside, "flat": apart} {
		n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject, gen.Class("flat", gen.DefaultLength(28)), beside, apart, both)
		n.keep(scoped("w", class, "net", "ams"))
		if now := n.reconcile("w"); now.Status.Phase != ipamv1alpha1.ClaimPending {
			t.Fatalf("by class %s the claim is %+v, want it Pending", class, now.Status)
		}
		must.Do(t, n.platform.Client.Delete(t.Context(), other))
		if woken := n.waiting.wake(topicsOfClass(other)...); !slices.Contains(woken, requestIn("tenant", "w")) {
			t.Errorf("woken are %v when class %s goes, want the claim by class %s", woken, other.Name, class)
		}
		if now := n.reconcile("w"); now.Status.Phase != ipamv1alpha1.ClaimBound {
			t.Errorf("by class %s the claim is %+v once class %s is gone; want it Bound", class, now.Status, other.Name)
		}
	}
}
