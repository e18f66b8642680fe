package resolve_test

import (
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// If namespaces are the tenants, each namespace has pools and address spaces of its own. The name of such a pool
// contains the name of the namespace.
func TestResolve_GivesNamespacesPoolsOfTheirOwn(t *testing.T) {
	w, from := networks(), directory.Workspace{Cluster: ledger.ByNamespace("uid"), Path: "local"}
	w.class("endpoint").Spec.UniqueWithin = []string{"network"}
	w.pools = map[directory.Workspace][]*ipamv1alpha1.IPPool{from: w.pools[platform]}
	plan := func(namespace string) resolve.Plan {
		claim := gen.Claim("x", gen.OfClass("endpoint"), vpc1, gen.Namespace(namespace))
		return must.Get(resolve.Query{Claim: claim, From: from, Platform: from}.Resolve(w))(t)
	}
	red, blue := plan("red"), plan("blue")
	if got := red.Chain[0]; got.Derived.Workspace != "uid.ns.red" || !strings.HasPrefix(got.Name, "vpc-red-vpc-1-") || got.Name == blue.Chain[0].Name {
		t.Errorf("the pools of the network are %s of %s, and %s; want those of the namespaces", got.Name, got.Derived.Workspace, blue.Chain[0].Name)
	}
	if red.Space.Workspace != "uid.ns.red" || blue.Space.Workspace != "uid.ns.blue" {
		t.Errorf("the address spaces are those of %s and %s, want those of the namespaces", red.Space.Workspace, blue.Space.Workspace)
	}
}
