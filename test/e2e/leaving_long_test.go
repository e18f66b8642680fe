//go:build long

package e2e

import (
	"strings"
	"testing"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A workspace is deleted while another workspace holds a block in its pool. Nothing holds up the deletion, and the
// other workspace keeps its block.
func TestLong_LeavingKeepsTheBlocksOfOthers(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	for name, leave := range map[string]func(*framework.Tenant){
		"unbound":                  func(owner *framework.Tenant) { owner.Unbind(t) },
		"deleted":                  func(owner *framework.Tenant) { owner.DeleteWorkspace(t) },
		"deleted, controller down": func(owner *framework.Tenant) { deleteWhileDown(t, platform, owner) },
	} {
		owner, guest := platform.Tenant(t), platform.Tenant(t)
		pool := gen.Pool("lent", gen.CIDR(platform.CIDR(t)), gen.Visible(ipamv1alpha1.VisibilityShared),
			gen.Consumers{ipamv1alpha1.Consumer(guest.Path)})
		own := gen.Claim("own", gen.FromPool("lent"), gen.Length(28))
		framework.Create(t, owner, pool, own)
		foreign := gen.Claim("foreign", gen.FromPoolIn(owner.Path, "lent"), gen.Length(28))
		framework.Create(t, guest, foreign)
		framework.WaitBound(t, owner, own)
		framework.WaitBound(t, guest, foreign)
		cidr := foreign.Status.AllocatedCIDR

		leave(owner)

		framework.WaitBound(t, guest, foreign)
		if foreign.Status.AllocatedCIDR != cidr {
			t.Errorf("%s: the block of another became %s, was %s", name, foreign.Status.AllocatedCIDR, cidr)
		}
		framework.Delete(t, guest, foreign)
		framework.WaitGone(t, guest, foreign)
	}
}

// deleteWhileDown deletes a workspace so that the controller finds it half gone when it starts.
func deleteWhileDown(t *testing.T, platform *framework.Platform, owner *framework.Tenant) {
	t.Helper()
	platform.KillController(t)
	workspace := &tenancyv1alpha1.Workspace{}
	workspace.Name = strings.TrimPrefix(owner.Path, "root:")
	framework.Delete(t, framework.Admin(t, "root"), workspace)
	platform.StartController(t)
	framework.WaitGone(t, framework.Admin(t, "root"), workspace)
}

// Objects that go while no controller runs are settled when one starts: claims, a namespace full of claims, and
// workspaces.
func TestLong_SettlesWhatWentWhileTheControllerWasDown(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "swept", sweeping...)
	platform.StartController(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	stayer, unbinder, deleted := platform.Tenant(t), platform.Tenant(t), platform.Tenant(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	framework.Create(t, stayer, namespace)
	stays, goes := bindSome(t, stayer, name, "stays", 1), bindSome(t, stayer, name, "goes", 2)
	bindSome(t, stayer, name, "inside", 2, gen.Namespace(namespace.Name))
	bindSome(t, unbinder, name, "left", 2)
	bindSome(t, deleted, name, "lost", 2)

	platform.KillController(t)
	for _, claim := range goes {
		framework.Delete(t, stayer, claim)
	}
	framework.Delete(t, stayer, namespace)
	framework.WaitGone(t, stayer, namespace)
	unbinder.Unbind(t)
	deleted.DeleteWorkspace(t)
	platform.StartController(t)
	waitHeld(t, platform, pool, size(blocksOf(t, stays...)...))
	framework.WaitBound(t, stayer, stays...)

	// The last workspace takes the endpoint with it. No controller saw it go, so its block is kept until there is an
	// endpoint again to ask.
	platform.KillController(t)
	stayer.Unbind(t)
	platform.StartController(t)
	platform.WaitSwept(t, 4)
	waitHeld(t, platform, pool, size(blocksOf(t, stays...)...))
	unbinder.Bind(t)
	waitHeld(t, platform, pool, size())
}

// A tenant comes and goes while the controller runs. It is served each time, and leaves nothing allocated. At first
// it is the only tenant, so the export's endpoint goes with it.
func TestLong_Rebind(t *testing.T) {
	t.Parallel()
	platform, tenant, pool := alone(t)

	for range 3 {
		claimAnew(t, tenant, pool.Name)
		tenant.Unbind(t)
		waitHeld(t, platform, pool, size())
		tenant.Bind(t)
	}

	other := platform.Tenant(t)
	stays := claimAnew(t, other, pool.Name)
	for range 2 {
		goes := claimAnew(t, tenant, pool.Name)
		waitHeld(t, platform, pool, size(blockOf(t, stays), blockOf(t, goes)))
		tenant.Unbind(t)
		waitHeld(t, platform, pool, size(blockOf(t, stays)))
		tenant.Bind(t)
	}
	framework.WaitBound(t, other, stays)

	claimAnew(t, tenant, pool.Name)
	tenant.DeleteWorkspace(t)
	waitHeld(t, platform, pool, size(blockOf(t, stays)))
}
