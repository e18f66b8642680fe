package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A namespace that is deleted takes its claims and its records along, retained ones too, and all blocks in it are
// freed. The claims of another namespace keep theirs.
func standaloneNamespace(t *testing.T, cluster *framework.Platform) {
	name := framework.Name(t)
	pool := offer(t, cluster, name, cluster.CIDR(t), gen.DefaultLength(28))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leaves"}}
	framework.Create(t, cluster, namespace)
	stays := gen.Claim("beside-namespace", gen.OfClass(name))
	goes := gen.Claim("goes", gen.OfClass(name), gen.Namespace(namespace.Name))
	kept := gen.Claim("retained", gen.OfClass(name), gen.Namespace(namespace.Name), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Bind(t, cluster, stays, goes, kept)
	framework.Delete(t, cluster, kept)
	retained(t, cluster, kept)

	framework.Delete(t, cluster, namespace)
	framework.WaitGone(t, cluster, namespace)
	waitHeld(t, cluster, pool, size(blockOf(t, stays)))
	cluster.WaitVerified(t)
}

// A claim with an owner goes with it, by the garbage collector, and its block is freed.
func standaloneGarbageCollection(t *testing.T, cluster *framework.Platform) {
	name := framework.Name(t)
	pool := offer(t, cluster, name, cluster.CIDR(t), gen.DefaultLength(28))
	admin := cluster.Admin(t)
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "owner"}}
	framework.Create(t, admin, owner)
	stays, goes := gen.Claim("unowned", gen.OfClass(name)), gen.Claim("owned", gen.OfClass(name))
	goes.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	framework.Bind(t, cluster, stays, goes)
	waitHeld(t, cluster, pool, size(blocksOf(t, stays, goes)...))

	framework.Delete(t, admin, owner)
	framework.WaitGone(t, cluster, goes)
	waitHeld(t, cluster, pool, size(blockOf(t, stays)))
	waitUnrecorded(t, cluster, "owned")
	cluster.WaitVerified(t)
}
