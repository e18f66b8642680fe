//go:build long

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// What goes while no controller runs is settled when one comes: claims, a namespace
// full of them, and workspaces.
func TestLong_DownSettlesWhatWent(t *testing.T) {
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

	// The last one takes the endpoint along. That nobody saw it go keeps its block, until
	// there is an endpoint again that can be asked.
	platform.KillController(t)
	stayer.Unbind(t)
	platform.StartController(t)
	platform.WaitSwept(t, 4)
	waitHeld(t, platform, pool, size(blocksOf(t, stays...)...))
	unbinder.Bind(t)
	waitHeld(t, platform, pool, size())
}
