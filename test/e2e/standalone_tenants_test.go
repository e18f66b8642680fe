package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Each namespace is a tenant: it has networks, address spaces and limits of its own, and learns nothing of the
// others.
func standaloneTenants(t *testing.T, cluster *framework.Platform) {
	cidr, another := cluster.CIDR(t), cluster.CIDR(t)
	cluster = cluster.Reconfigured(t, "--tenants=namespaces", "--etcd-prefix=/by-namespace")
	cluster.StartController(t)
	cluster.WaitWebhooks(t, cluster)
	const red, blue = "red", "blue"
	for _, name := range []string{red, blue} {
		framework.Create(t, cluster.Admin(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	name := framework.Name(t)
	net, flat := name+"-net", name+"-flat"
	framework.Create(t, cluster,
		gen.Class(net, gen.DefaultLength(28), gen.PoolPer("project", "network")),
		gen.Class(name, gen.DefaultLength(32), gen.Below(net)),
		gen.Class(flat, gen.DefaultLength(32), gen.UniqueWithin("network"), gen.MaxPerConsumer("1")))
	framework.Allocate(t, cluster, gen.Pool(net, gen.CIDR(cidr), gen.Backs(net)), gen.Pool(flat, gen.CIDR(another), gen.Backs(flat)))

	claim := func(in, name, class string, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
		claim := gen.Claim(name, append(options, gen.OfClass(class), gen.Namespace(in), gen.Within("network", "vpc"))...)
		framework.Bind(t, cluster, claim)
		return claim
	}
	ranges, hosts, repeated := map[string]*ipamv1alpha1.IPClaim{}, map[string]*ipamv1alpha1.IPClaim{}, map[string]*ipamv1alpha1.IPClaim{}
	for _, in := range []string{red, blue} {
		ranges[in], hosts[in] = claim(in, "vpc", net, gen.ForRange()), claim(in, "host", name)
		repeated[in] = claim(in, "flat", flat)
		second := gen.Claim("second", gen.OfClass(flat), gen.Namespace(in), gen.Within("network", "vpc"))
		err := framework.Patiently(t, func(ctx context.Context) error { return cluster.Create(ctx, second) })
		if refusedWith(err, 403, ipamv1alpha1.ReasonQuotaExceeded, "") != nil {
			t.Errorf("a claim beyond the limit of namespace %s: %v; want QuotaExceeded", in, err)
		}
	}
	if a, b := ranges[red].Status, ranges[blue].Status; a.AllocatedCIDR == b.AllocatedCIDR || a.PoolRef.Name == b.PoolRef.Name || !strings.Contains(a.PoolRef.Name, "-red-") {
		t.Errorf("the networks of one name are %s in %s and %s in %s; want two, with the names of their namespaces", a.AllocatedCIDR, a.PoolRef.Name, b.AllocatedCIDR, b.PoolRef.Name)
	}
	if a, b := repeated[red].Status.AllocatedCIDR, repeated[blue].Status.AllocatedCIDR; a != b {
		t.Errorf("the first addresses of two address spaces are %s and %s; want one", a, b)
	}
	for _, in := range []string{red, blue} {
		pool := &ipamv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: hosts[in].Status.PoolRef.Name}}
		framework.WaitCondition(t, cluster, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
		if said := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionInUse).Message; !strings.Contains(said, "claim "+in+"/vpc holds the pool") {
			t.Errorf("InUse of the pool of %s says %q; want the claim of the namespace", in, said)
		}
		if err := framework.Remove(t, cluster, ranges[in].DeepCopy()); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "claim "+in+"/host") {
			t.Errorf("DELETE of a range in use: %v; want a Conflict with the claim inside", err)
		}
		framework.Delete(t, cluster, hosts[in], repeated[in])
		framework.WaitGone(t, cluster, hosts[in])
		framework.Delete(t, cluster, ranges[in])
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); !apierrors.IsNotFound(err) {
			t.Errorf("GET of the pool of %s after the DELETE of its range: %v; want 404", in, err)
		}
	}
	cluster.WaitVerified(t)
}
