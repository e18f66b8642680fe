//go:build long

package e2e

import (
	"strings"
	"testing"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A workspace goes, with a pool in which another holds a block. It is not kept
// from going, and the other keeps its block.
func TestLong_LeavingAPoolThatOthersHold(t *testing.T) {
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

// deleteWhileDown has the controller find the workspace half gone when it starts.
func deleteWhileDown(t *testing.T, platform *framework.Platform, owner *framework.Tenant) {
	t.Helper()
	platform.KillController(t)
	workspace := &tenancyv1alpha1.Workspace{}
	workspace.Name = strings.TrimPrefix(owner.Path, "root:")
	framework.Delete(t, framework.Admin(t, "root"), workspace)
	platform.StartController(t)
	framework.WaitGone(t, framework.Admin(t, "root"), workspace)
}
