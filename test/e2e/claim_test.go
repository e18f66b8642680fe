package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// recordOfWeb is the documented name of the IPAllocation of the claim default/web:
// "alloc-" and the first 16 digits of what `printf default/web | sha256sum` prints.
const recordOfWeb = "alloc-82b3ade9d00cd164"

// Two tenants make claims by one class, and get different addresses of the platform's pool.
func TestClaim_GivesTwoTenantsDifferentAddresses(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	offer(t, platform, name, cidr, gen.DefaultLength(28))

	blocks := map[netip.Prefix]string{}
	for _, tenant := range []*framework.Tenant{platform.Tenant(t), platform.Tenant(t)} {
		claim := gen.Claim("web", gen.OfClass(name))
		framework.Bind(t, tenant, claim)
		block := blockOf(t, claim)
		disjointIn(t, cidr, block)
		blocks[block] = tenant.Path

		from := ipamv1alpha1.PoolRef{Name: name, ProjectRef: &ipamv1alpha1.ProjectRef{Name: platform.Path}}
		showsBound(t, claim, ipamv1alpha1.IPClaimStatus{
			Phase:              ipamv1alpha1.ClaimBound,
			AllocatedCIDR:      block.String(),
			ClassName:          name,
			IPFamily:           ipamv1alpha1.IPv4,
			PoolRef:            &from,
			Requested:          "/28",
			BoundAllocationRef: &ipamv1alpha1.LocalRef{Name: recordOfWeb},
			ObservedGeneration: 1,
		})
		showsRecord(t, tenant, recordOfWeb, ipamv1alpha1.IPAllocationSpec{
			IPFamily:      ipamv1alpha1.IPv4,
			PoolRef:       from,
			ClassName:     name,
			ClaimRef:      &ipamv1alpha1.ClaimRef{Name: "web", UID: claim.UID, AllocationID: claim.Status.AllocationID},
			Purpose:       ipamv1alpha1.PurposeClaim,
			ReclaimPolicy: ipamv1alpha1.ReclaimDelete,
		}, ipamv1alpha1.IPAllocationStatus{Phase: ipamv1alpha1.AllocationReady, AllocatedCIDR: block.String()})
	}
	if len(blocks) != 2 {
		t.Errorf("both tenants got %v", blocks)
	}
}

// A claim for a single IPv6 address, with its own reclaim policy and an owner, has all of this in its record.
func TestClaim_RecordsASingleAddress(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	offer(t, platform, name, "2001:db8:1::/64", gen.Family(ipamv1alpha1.IPv6))

	tenant := platform.Tenant(t)
	owner := ipamv1alpha1.OwnerRef{APIGroup: "apps", Kind: "Deployment", Namespace: "default", Name: "web", UID: "1"}
	claim := gen.Claim("web", gen.OfClass(name), gen.Length(128), gen.Reclaim(ipamv1alpha1.ReclaimRetain), gen.OwnedBy(owner))
	framework.Bind(t, tenant, claim)

	if claim.Status.AllocatedCIDR != "2001:db8:1::/128" || claim.Status.Address != "2001:db8:1::" {
		t.Errorf("allocatedCIDR %s, address %s; want 2001:db8:1::/128 and 2001:db8:1::", claim.Status.AllocatedCIDR, claim.Status.Address)
	}
	showsRecord(t, tenant, recordOfWeb, ipamv1alpha1.IPAllocationSpec{
		IPFamily:      ipamv1alpha1.IPv6,
		PoolRef:       ipamv1alpha1.PoolRef{Name: name, ProjectRef: &ipamv1alpha1.ProjectRef{Name: platform.Path}},
		ClassName:     name,
		ClaimRef:      &ipamv1alpha1.ClaimRef{Name: "web", UID: claim.UID, AllocationID: claim.Status.AllocationID},
		Purpose:       ipamv1alpha1.PurposeClaim,
		ReclaimPolicy: ipamv1alpha1.ReclaimRetain,
		OwnerRef:      &owner,
	}, ipamv1alpha1.IPAllocationStatus{
		Phase: ipamv1alpha1.AllocationReady, AllocatedCIDR: "2001:db8:1::/128", Address: "2001:db8:1::",
	})
}

// A tenant's own pool is named without a workspace, and is used before a pool of the platform.
func TestClaim_PrefersTheTenantsOwnPool(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	own := gen.Pool("own", gen.CIDR("192.168.0.0/24"), gen.Backs(name))
	framework.Allocate(t, tenant, own)
	serves(t, tenant, gen.FromPool(own.Name))

	byClass := gen.Claim("by-class", gen.OfClass(name), gen.Length(26))
	byPool := gen.Claim("by-pool", gen.FromPool("own"), gen.Length(26))
	selecting := gen.Claim("selecting", gen.Selecting("kubernetes.io/no", "such"), gen.Length(26))
	framework.Create(t, tenant, byClass, byPool, selecting)
	framework.WaitBound(t, tenant, byClass, byPool)
	disjointIn(t, "192.168.0.0/24", blockOf(t, byClass), blockOf(t, byPool))
	for _, claim := range []*ipamv1alpha1.IPClaim{byClass, byPool} {
		if diff := cmp.Diff(&ipamv1alpha1.PoolRef{Name: "own"}, claim.Status.PoolRef); diff != "" {
			t.Errorf("poolRef of claim %s (-want +got):\n%s", claim.Name, diff)
		}
	}
	framework.WaitAllocated(t, tenant, selecting, ipamv1alpha1.ReasonPoolNotFound)
	waitHeld(t, tenant, own, size(blockOf(t, byClass), blockOf(t, byPool)))
}

// Claims in the platform's own workspace are served like all others.
func TestClaim_ServesThePlatformsOwnWorkspace(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	admin := framework.Admin(t, platform.Path)

	claim := gen.Claim(name, gen.OfClass(name), gen.Length(24))
	framework.Bind(t, admin, claim)
	disjointIn(t, cidr, blockOf(t, claim))
	waitHeld(t, platform, pool, size(blockOf(t, claim)))
	framework.Delete(t, admin, claim)
	waitHeld(t, platform, pool, size())
}

// showsBound fails the test unless a claim shows this status, and the conditions of success.
func showsBound(t *testing.T, claim *ipamv1alpha1.IPClaim, want ipamv1alpha1.IPClaimStatus) {
	t.Helper()
	got := *claim.Status.DeepCopy()
	showsSuccess(t, got.Conditions)
	got.Conditions, got.AllocationID = nil, ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status of claim %s (-want +got):\n%s", claim.Name, diff)
	}
}

// showsRecord waits for an IPAllocation, and fails the test unless it has that content.
func showsRecord(t *testing.T, c client.Reader, name string, spec ipamv1alpha1.IPAllocationSpec, status ipamv1alpha1.IPAllocationStatus) {
	t.Helper()
	record := &ipamv1alpha1.IPAllocation{}
	record.Namespace, record.Name = metav1.NamespaceDefault, name
	framework.WaitFor(t, c, record, func(*ipamv1alpha1.IPAllocation) error { return nil })
	showsSuccess(t, record.Status.Conditions)
	record.Status.Conditions = nil
	if diff := cmp.Diff(spec, record.Spec); diff != "" {
		t.Errorf("spec of %s (-want +got):\n%s", name, diff)
	}
	if diff := cmp.Diff(status, record.Status); diff != "" {
		t.Errorf("status of %s (-want +got):\n%s", name, diff)
	}
}

// showsSuccess fails the test unless the only conditions are Allocated and Ready, and both are true.
func showsSuccess(t *testing.T, conditions []metav1.Condition) {
	t.Helper()
	for _, condition := range []string{ipamv1alpha1.ConditionAllocated, ipamv1alpha1.ConditionReady} {
		if !meta.IsStatusConditionTrue(conditions, condition) {
			t.Errorf("condition %s is not true in %+v", condition, conditions)
		}
	}
	if len(conditions) != 2 {
		t.Errorf("conditions %+v; want Allocated and Ready alone", conditions)
	}
}

// A later change of labels wakes waiting claims, and moves no bound claim.
func TestSelector_WakesWaitersWhenLabelsChange(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.Label("tier", "web"))
	web, db := gen.Claim("web", gen.Selecting("tier", "web"), gen.Length(28)), gen.Claim("db", gen.Selecting("tier", "db"), gen.Length(28))
	framework.Create(t, s.tenant, web, db)
	framework.WaitBound(t, s.tenant, web)
	framework.WaitAllocated(t, s.tenant, db, ipamv1alpha1.ReasonPoolNotFound)

	must.Do(t, s.tenant.Patch(t.Context(), pool, merge(`{"metadata": {"labels": {"tier": "db"}}}`)))
	framework.WaitBound(t, s.tenant, db)
	unchanged(t, s.tenant, web)
}

// A client that selects a pool gets a warning that this is deprecated, in the form that clients show. No other client
// is warned.
func TestSelector_WarnsThatItIsDeprecated(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	heard := &warnings{}
	cfg := rest.CopyConfig(tenant.Config())
	cfg.WarningHandler = heard
	c := must.Get(client.New(cfg, client.Options{Scheme: tenant.Scheme()}))(t)
	framework.Create(t, c, gen.Claim("by-class", gen.OfClass("none")), gen.Claim("by-pool", gen.FromPool("none")), gen.Pool("pool"))
	if said := heard.all(); len(said) != 0 {
		t.Errorf("warnings without a selector: %q", said)
	}
	framework.Eventually(t, "the warning", func(ctx context.Context) error { // a policy takes effect a moment after it is made
		if err := c.Create(ctx, selecting("", ipamv1alpha1.PoolSelector{})); err != nil {
			return err
		}
		if len(heard.all()) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	if said := heard.all(); !strings.Contains(said[0], "spec.poolSelector is deprecated: name a class by spec.className, or a pool by spec.poolRef") {
		t.Errorf("the warning is %q; want it to say what to write instead", said)
	}
}

// A user who forgets the target of a claim by a class that makes ranges gets a block, and a warning in the answer to
// CREATE. There is no warning for a range, or for a block by another class.
func TestCreate_WarnsOfABlockBesideItsRange(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	net, host := s.name+"-net", s.name+"-host"
	framework.Create(t, s.platform, gen.Class(net, gen.DefaultLength(28), gen.PoolPer("project", "network")), gen.Class(host, gen.DefaultLength(32), gen.Below(net)))
	framework.Allocate(t, s.platform, platformPool(net, s.cidr, net))
	s.platform.WaitWebhooks(t, s.tenant)
	heard := &warnings{}
	cfg := rest.CopyConfig(s.tenant.Config())
	cfg.WarningHandler = heard
	c := must.Get(client.New(cfg, client.Options{Scheme: s.tenant.Scheme()}))(t)
	framework.Bind(t, c, gen.Claim("forgotten", gen.OfClass(net), gen.Within("network", "blue"))) // such a class refuses what it cannot answer
	want := fmt.Sprintf("this is a block beside the ranges of class %q, and holds none of them: for the range of this scope, set spec.target to ScopeRange", net)
	if said := heard.all(); len(said) != 1 || said[0] != want {
		t.Errorf("the warnings of a block beside its range are %q; want %q", said, want)
	}
	red := gen.Within("network", "red")
	framework.Bind(t, c, gen.Claim("range", gen.OfClass(net), gen.ForRange(), red), gen.Claim("host", gen.OfClass(host), red))
	if said := heard.all(); len(said) != 1 {
		t.Errorf("with a range and a block in it the warnings are %q; want no other one", said)
	}
}

// selecting returns a claim by a selector. Without a name, its name is generated.
func selecting(name string, selector ipamv1alpha1.PoolSelector) *ipamv1alpha1.IPClaim {
	claim := gen.Claim(name, gen.Length(28))
	claim.Spec.PoolSelector = &selector
	if name == "" {
		claim.GenerateName = "claim-"
	}
	return claim
}

// warnings collects the warnings of a server. The zero value is ready; it is safe for concurrent use.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}
