package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// An address moves between two namespaces while older claims wait for any address of the full pool: none of them gets it.
func TestCLI_MovesAnAddress(t *testing.T) {
	t.Parallel()
	moves(t, 5)
}

// moves moves an address that many times.
func moves(t *testing.T, times int) {
	t.Helper()
	s := newScene(t)
	s.ownPool(gen.CIDR("10.0.0.0/29"))
	framework.Create(t, s.tenant, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	var full []*ipamv1alpha1.IPClaim
	for i := range 7 {
		full = append(full, gen.Claim(fmt.Sprint("full", i), gen.FromPool("own"), gen.Length(32)))
	}
	web := gen.Claim("web", gen.FromPool("own"), gen.Length(32))
	framework.Bind(t, s.tenant, append(full, web)...)
	for i := range 30 {
		framework.Create(t, s.tenant, gen.Claim(fmt.Sprint("older", i), gen.FromPool("own"), gen.Length(32)))
	}
	for i := range 30 {
		framework.WaitAllocated(t, s.tenant, gen.Claim(fmt.Sprint("older", i)), ipamv1alpha1.ReasonPoolExhausted)
	}
	c := cli{s.tenant.CLI(t), t}
	at := []string{"default", "shop"}
	for i := range times {
		from, to := at[i%2], at[(i+1)%2]
		if got := c.ok("claim", "move", "web", "-n", from, "--to-namespace", to); got != web.Status.AllocatedCIDR+"\n" {
			t.Fatalf("move %d to %s prints %q; want %s", i, to, got, web.Status.AllocatedCIDR)
		}
	}
	there := &ipamv1alpha1.IPClaim{}
	must.Do(t, s.tenant.Get(t.Context(), client.ObjectKey{Namespace: at[times%2], Name: "web"}, there))
	if there.Status.AllocatedCIDR != web.Status.AllocatedCIDR {
		t.Errorf("after %d moves the claim holds %s; want %s", times, there.Status.AllocatedCIDR, web.Status.AllocatedCIDR)
	}
	claims := &ipamv1alpha1.IPClaimList{}
	must.Do(t, s.tenant.List(t.Context(), claims))
	for _, claim := range claims.Items {
		if strings.HasPrefix(claim.Name, "older") && claim.Status.AllocatedCIDR != "" {
			t.Errorf("claim %s got %s", claim.Name, claim.Status.AllocatedCIDR)
		}
	}
	c.run("claim", "pin", "web", "-n", there.Namespace).ends(0)
	c.run("claim", "release", "web", "-n", there.Namespace).ends(0)
	if again := c.ok("claim", "create", "web", "-n", there.Namespace, "--pool", "own", "--address", there.Status.Address, "--retained-policy", "Reuse", "--quiet", "--wait", "1m"); again != web.Status.AllocatedCIDR+"\n" {
		t.Errorf("the claim that was pinned gets %q when it is created again; want %s", again, web.Status.AllocatedCIDR)
	}
}

// One command releases a network with a few hundred claims in two namespaces, and leaves nothing of it.
func TestCLI_ReleasesANetworkWithAllInside(t *testing.T) {
	t.Parallel()
	const endpoints = 300
	s := newScene(t)
	net, loc := s.name+"-net", s.name+"-loc"
	framework.Create(t, s.platform,
		gen.Class(net, gen.DefaultLength(20), gen.PoolPer("network", ipamv1alpha1.RoleProject)),
		gen.Class(loc, gen.DefaultLength(22), gen.PoolPer("network", "location", ipamv1alpha1.RoleProject), gen.Below(net)),
		gen.Class(s.name, gen.DefaultLength(32), gen.Below(loc)))
	framework.Allocate(t, s.platform, platformPool(s.name, s.cidr, net))
	s.platform.WaitWebhooks(t, s.tenant)
	framework.Create(t, s.tenant, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	within := gen.Within("network", "vpc", "location", "ams")
	framework.Bind(t, s.tenant, gen.Claim("vpc", gen.OfClass(net), gen.ForRange(), gen.Within("network", "vpc")))
	framework.Bind(t, s.tenant, gen.Claim("ams", gen.OfClass(loc), gen.ForRange(), within))
	group := errgroup.Group{}
	group.SetLimit(8)
	for i := range endpoints {
		group.Go(func() error {
			claim := gen.Claim(fmt.Sprint("eth", i), gen.OfClass(s.name), within)
			claim.Namespace = []string{"default", "shop"}[i%2]
			return framework.Patiently(t, func(ctx context.Context) error { return client.IgnoreAlreadyExists(s.tenant.Create(ctx, claim)) })
		})
	}
	must.Do(t, group.Wait())
	c := cli{s.tenant.CLI(t), t}
	c.run("claim", "release", "vpc").ends(5).says("release everything allocated inside this range first")
	c.run("claim", "release", "vpc", "--cascade", "--wait", "3m").ends(0).says("claim default/vpc is released: ")
	for _, list := range []client.ObjectList{&ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPPoolList{}} {
		must.Do(t, s.tenant.List(t.Context(), list))
		if left := meta.LenList(list); left > 0 {
			t.Errorf("left are %d of %T; want nothing", left, list)
		}
	}
}
