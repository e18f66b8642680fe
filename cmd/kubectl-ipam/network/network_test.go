package network

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// of returns a scope, which is written as --scope takes it.
func of(text string) gen.Scope {
	scope := ipamv1alpha1.Scope{}
	if err := field.Scope(&scope).Set(text); err != nil {
		panic(err)
	}
	return gen.Scope(scope)
}

// made returns a pool that the system has made for a scope.
func made(name, cidr, scope string) *ipamv1alpha1.IPPool {
	pool := stage.Ready(gen.Pool(name, gen.ChildOf("vpcs", 16), of(scope)), cidr, ipamv1alpha1.IPv4, 0, 17)
	pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "vpc"}
	return pool
}

// workspace returns the objects of a workspace: two networks with the same CIDR (one of them is held, and has a
// subnet), a network in a pool of the platform, a network that waits, and objects without a scope.
func workspace() []client.Object {
	red, blue := of("network=red"), of("network=Network.networking.example.com/blue")
	app := of("network=red,subnet=app")
	here := func(pool string) ipamv1alpha1.PoolRef { return ipamv1alpha1.PoolRef{Name: pool} }
	foreign := gen.Claim("foreign", gen.ForRange(), of("network=green"))
	return []client.Object{
		gen.Pool("lab"), made("vpc-red", "10.112.0.0/16", "network=red"), made("vpc-blue", "10.112.0.0/16", "network=Network.networking.example.com/blue"),
		made("vpc-red-app", "10.112.0.0/24", "network=red,subnet=app"),
		stage.Bound(gen.Claim("hold-red", gen.ForRange(), red), "10.112.0.0/16", here("vpc-red")),
		stage.Bound(gen.Claim("web", app), "10.112.0.1/32", here("vpc-red-app")),
		stage.Bound(gen.Claim("db", gen.Namespace("shop"), app), "10.112.0.2/32", here("vpc-red-app")),
		stage.Bound(gen.Claim("web-blue", blue), "10.112.0.1/32", here("vpc-blue")),
		gen.Claim("late", blue), stage.Bound(foreign, "10.120.0.0/16", stage.OfPlatform("vpc-green")),
		gen.Claim("typo", of("network=rde")), stage.Bound(gen.Claim("flat"), "10.8.0.0/32", here("lab")),
	}
}

// A network is shown with its CIDR, its holder, and the number of claims inside, including those of its subnets. Two
// networks with the same CIDR are listed separately.
func TestNetworkList_CountsTheClaimsInside(t *testing.T) {
	r := &session.View{WithWatch: stage.Server(t, interceptor.Funcs{}, workspace()...)}
	only := ipamv1alpha1.Scope(of("network=red"))
	for format, want := range map[string]string{
		"": "NETWORK                                       CIDR            HELD BY            CLAIMS   WAITING\n" +
			"network=Network.networking.example.com/blue   10.112.0.0/16   -                  2        1\n" +
			"network=green                                 10.120.0.0/16   default/foreign    0        0\n" +
			"network=rde                                   -               -                  1        1\n" +
			"network=red                                   10.112.0.0/16   default/hold-red   2        0\n" +
			"network=red,subnet=app                        10.112.0.0/24   -                  2        0\n",
		output.Name: "network=Network.networking.example.com/blue\nnetwork=green\nnetwork=rde\nnetwork=red\nnetwork=red,subnet=app\n",
	} {
		s := stage.New(t)
		if err := list(t.Context(), s.Session, r, &output.Printer{Format: format}, nil); err != nil || s.Printed.String() != want {
			t.Errorf("-o %q prints %q, %v; want %q", format, s.Printed, err, want)
		}
	}
	for format, want := range map[string]string{
		output.YAML: "networks:\n- cidrs:\n  - 10.112.0.0/16\n  claims: 2\n  heldBy:\n  - default/hold-red\n  network: network=red\n  pools:\n  - vpc-red\n  waiting: 0\n" +
			"- cidrs:\n  - 10.112.0.0/24\n  claims: 2\n  network: network=red,subnet=app\n  pools:\n  - vpc-red-app\n  waiting: 0\n",
		output.CSV: "NETWORK,WORKSPACE,CIDR,HELD BY,CLAIMS,WAITING,POOLS\nnetwork=red,,10.112.0.0/16,default/hold-red,2,0,vpc-red\n\"network=red,subnet=app\",,10.112.0.0/24,,2,0,vpc-red-app\n",
	} {
		s := stage.New(t)
		if err := list(t.Context(), s.Session, r, &output.Printer{Format: format}, only); err != nil || s.Printed.String() != want {
			t.Errorf("of network red, -o %q prints %q, %v; want %q", format, s.Printed, err, want)
		}
	}
	s := stage.New(t)
	empty := &session.View{WithWatch: stage.Server(t, interceptor.Funcs{}, gen.Pool("lab"), gen.Claim("flat"))}
	if err := list(t.Context(), s.Session, empty, &output.Printer{}, nil); err != nil || s.Printed.Len() > 0 || s.Said.Len() == 0 {
		t.Errorf("without networks it prints %q and says %q, %v; want a word alone", s.Printed, s.Said, err)
	}
}

// An admin of the platform sees the networks of all tenants with their workspaces. Two networks with the same name are
// listed separately.
func TestNetworkList_SeparatesTenants(t *testing.T) {
	objects := workspace()
	for _, object := range objects {
		object.SetAnnotations(map[string]string{"kcp.io/cluster": "1abc"})
	}
	r := &session.View{
		WithWatch: stage.Server(t, interceptor.Funcs{}, made("shared", "10.112.0.0/16", "network=red")), Path: "root:ipam", SeesTenants: true,
		Tenants: []client.Reader{stage.Server(t, interceptor.Funcs{}, objects...)}, Paths: map[string]string{"1abc": "root:team-a"},
	}
	s := stage.New(t)
	only := ipamv1alpha1.Scope(of("network=red"))
	const want = "NETWORK                  WORKSPACE     CIDR            HELD BY            CLAIMS   WAITING\n" +
		"network=red              -             10.112.0.0/16   -                  0        0\n" +
		"network=red              root:team-a   10.112.0.0/16   default/hold-red   2        0\n" +
		"network=red,subnet=app   root:team-a   10.112.0.0/24   -                  2        0\n"
	if err := list(t.Context(), s.Session, r, &output.Printer{}, only); err != nil || s.Printed.String() != want {
		t.Errorf("it prints %q, %v; want %q", s.Printed, err, want)
	}
}
