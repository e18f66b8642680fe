//go:build long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// kcp routes a request before it reads the body, and asks webhooks and policies by the bindings of a later moment. So
// a CREATE whose body is held back until the workspace has unbound is stored as it was sent: a claim with another
// claim's block, and a pool that calls itself a slice. Neither has an effect: the claim loses the block, and gets one
// of its own. A claim that the controller could not read, so that it could not take back the block, is not stored.
func TestLong_HeldBackCreatesHaveNoEffect(t *testing.T) {
	t.Parallel()
	platform, victim, pool := alone(t)
	honest := claimAnew(t, victim, pool.Name)
	sliced := gen.Pool(framework.Name(t)+"-sliced", gen.CIDR(platform.CIDR(t)), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	sliced.Spec.Slices = &ipamv1alpha1.PoolSlices{PrefixLength: 28, MaxSlices: 1}
	framework.Create(t, platform, sliced)
	framework.WaitAllocated(t, victim, &ipamv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: sliced.Name}}, ipamv1alpha1.ReasonAllocationSucceeded)

	thief := platform.Tenant(t)
	owner := thief.OwnerConfig(t)
	claim := gen.Claim("forged", gen.OfClass(pool.Name), gen.Length(28))
	claim.UID, claim.Status = "", honest.Status
	slice := gen.Pool(sliced.Name, gen.ChildOf(sliced.Name, 28))
	slice.UID, slice.Labels = "", map[string]string{ipamv1alpha1.LabelSlice: string(sliced.UID)}
	slice.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: platform.Path}
	odd := claim.DeepCopy()
	odd.Name = "odd"
	heldClaim := framework.HoldBack(t, owner, "namespaces/default/ipclaims", "IPClaim", claim)
	heldOdd := framework.HoldBack(t, owner, "namespaces/default/ipclaims", "IPClaim", odd)
	heldOdd.Text = regexp.MustCompile(`(Time":"[0-9-]+)T([0-9:]+)Z`).ReplaceAll(heldOdd.Text, []byte("${1}t${2}z"))
	heldPool := framework.HoldBack(t, owner, "ippools", "IPPool", slice)
	thief.Leave(t)
	if err := heldOdd.Send(); err == nil || !strings.Contains(err.Error(), "lastTransitionTime") {
		t.Errorf("CREATE of a claim with a time that Go does not read = %v, want it to be refused for lastTransitionTime", err)
	}
	heldClaim.End(t)
	heldPool.End(t)

	thief.Bind(t)
	framework.Within(t, 4*time.Minute, "the forged claim to be bound to a block of its own", func(ctx context.Context) error {
		if err := thief.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if shown := claim.Status.AllocatedCIDR; shown == "" || shown == honest.Status.AllocatedCIDR {
			return fmt.Errorf("it shows %q, and %s is that of another tenant", shown, honest.Status.AllocatedCIDR)
		}
		return nil
	})
	framework.WaitBound(t, thief, claim)
	framework.WaitBound(t, victim, honest)
	waitHeld(t, platform, pool, size(blockOf(t, honest), blockOf(t, claim)))
	if n := platform.Metric(t, "ipam_claim_corrections_total "); n != "1" {
		t.Errorf("%q claims were corrected, want 1", n)
	}

	framework.WaitAllocated(t, thief, slice, ipamv1alpha1.ReasonPoolNotFound)
	if slice.Status.AllocatedCIDR != "" {
		t.Errorf("a pool that says that it is a slice has %s; want nothing, as the only slice is given", slice.Status.AllocatedCIDR)
	}
}

// Here the workspace is deleted instead of bound again. Then kcp shows the orphans in its wildcard lists for ever,
// and nobody can delete them. They do no harm: even after a loss of the ledger, no address is kept for them, and no
// pool stays frozen for them.
func TestLong_HeldBackCreatesOfADeletedWorkspaceHaveNoEffect(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	stays := l.holds("stays", gen.Length(28))
	l.published(stays)
	thief := l.platform.Tenant(t)
	owner := thief.OwnerConfig(t)
	last := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, blockOf(t, stays).Addr().As4()[1], 255, 240}), 28)
	claim := gen.Claim("forged", gen.OfClass(l.name), gen.Length(28))
	claim.UID, claim.Status = "", stays.Status
	claim.Status.AllocatedCIDR, claim.Status.Address = last.String(), ""
	pool := gen.Pool("forged", gen.CIDR("10.0.0.0/24"))
	pool.UID = ""
	pool.Status = ipamv1alpha1.IPPoolStatus{Phase: ipamv1alpha1.PoolReady, AllocatedCIDR: "10.0.0.0/24", Ledger: &ipamv1alpha1.PoolLedger{ID: "another", Changes: 7}}
	heldClaim := framework.HoldBack(t, owner, "namespaces/default/ipclaims", "IPClaim", claim)
	heldPool := framework.HoldBack(t, owner, "ippools", "IPPool", pool)
	thief.Leave(t)
	heldClaim.End(t)
	heldPool.End(t)
	thief.DeleteWorkspace(t)

	everywhere := asClient(t, at(l.platform, endpointOf(t, l.platform)+"/clusters/*"))
	claims, pools := &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPPoolList{}
	must.Do(t, errors.Join(everywhere.List(t.Context(), claims), everywhere.List(t.Context(), pools)))
	if !slices.ContainsFunc(claims.Items, func(c ipamv1alpha1.IPClaim) bool { return c.Status.AllocatedCIDR == last.String() }) {
		t.Error("kcp does not show the claim of the deleted workspace; want the orphan that this test is about")
	}
	if !slices.ContainsFunc(pools.Items, func(p ipamv1alpha1.IPPool) bool { return p.Name == pool.Name }) {
		t.Error("kcp does not show the pool of the deleted workspace; want the orphan that this test is about")
	}

	l.wipe()
	l.platform.StartController(t)
	late := l.holds("late", gen.Length(28))
	l.kept(stays)
	l.published(stays, late)
	if n := l.platform.Metric(t, "ipam_adopt_unplaced_records "); n != "1" {
		t.Errorf("%q records were not adopted, want 1: the orphan's", n)
	}
}

// A pool whose finalizers were removed leaves the ledger with its workspace, too.
func TestLong_PoolStrippedBeforeItsWorkspaceGoes(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "swept", sweeping...)
	platform.StartController(t)
	stays := platform.Tenant(t)
	framework.Create(t, stays, gen.Pool("stays", gen.CIDR("10.0.0.0/24")))
	framework.WaitAllocated(t, stays, gen.Pool("stays"), ipamv1alpha1.ReasonAllocationSucceeded)
	for name, leave := range map[string]func(*framework.Tenant){
		"unbound": func(tn *framework.Tenant) { tn.Unbind(t) },
		"deleted": func(tn *framework.Tenant) { tn.DeleteWorkspace(t) },
	} {
		tenant := platform.Tenant(t)
		pool := gen.Pool("pool", gen.CIDR("10.0.0.0/24"))
		framework.Allocate(t, tenant, pool)
		platform.KillController(t)
		strip(t, tenant.Owner(t), pool)
		leave(tenant)
		platform.StartController(t)
		waitPools(t, platform, 1)
		t.Logf("%s: the pool is gone", name)
	}
	framework.WaitAllocated(t, stays, gen.Pool("stays"), ipamv1alpha1.ReasonAllocationSucceeded)
}
