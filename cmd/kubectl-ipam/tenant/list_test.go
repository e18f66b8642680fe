package tenant

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// in puts objects into a logical cluster.
func in(cluster string, objects ...client.Object) []client.Object {
	for _, object := range objects {
		object.SetAnnotations(map[string]string{"kcp.io/cluster": cluster})
	}
	return objects
}

// A tenant is a workspace that is bound, also one that has nothing; the claims and pools of the platform itself are not counted.
func TestTenantList(t *testing.T) {
	bound := stage.Bound(gen.Claim("web"), "10.64.0.0/28", stage.OfPlatform("internal-a"))
	tenants := stage.Server(t, interceptor.Funcs{}, in("1abc", bound, gen.Claim("batch"), gen.Pool("lab"))...)
	r := &reach.View{
		WithWatch: stage.Server(t, interceptor.Funcs{}, gen.Claim("own"), gen.Pool("internal-a")), Path: "root:ipam", SeesTenants: true,
		Tenants: []client.Reader{tenants}, Paths: map[string]string{"1abc": "root:team-b", "2def": "root:team-a", "3ghi": ""},
	}
	for format, want := range map[string]string{
		"":          "TENANT        CLAIMS   WAITING   POOLS\n3ghi          0        0         0\nroot:team-a   0        0         0\nroot:team-b   2        1         1\n",
		output.Name: "3ghi\nroot:team-a\nroot:team-b\n",
		output.CSV:  "TENANT,CLAIMS,WAITING,POOLS\n3ghi,0,0,0\nroot:team-a,0,0,0\nroot:team-b,2,1,1\n",
		output.YAML: "- claims: 2\n  cluster: 1abc\n  pools: 1\n  tenant: root:team-b\n  waiting: 1\n",
	} {
		s := stage.New(t)
		if err := list(t.Context(), s.Session, r, &output.Report{Format: format}); err != nil || !strings.Contains(s.Printed.String(), want) {
			t.Errorf("-o %q prints %q, %v; want %q", format, s.Printed, err, want)
		}
	}
}

// Without kcp the tenants are namespaces, and a caller who sees no tenants is told where they are listed.
func TestTenantList_Elsewhere(t *testing.T) {
	shop := gen.Claim("web")
	shop.Namespace = "shop"
	here := stage.Server(t, interceptor.Funcs{}, shop, gen.Claim("batch"), gen.Pool("lab"))
	s := stage.New(t)
	err := list(t.Context(), s.Session, &reach.View{WithWatch: here}, &output.Report{})
	if want := "TENANT    CLAIMS   WAITING   POOLS\ndefault   1        1         -\nshop      1        1         -\n"; err != nil || s.Printed.String() != want {
		t.Errorf("without kcp it prints %q, %v; want %q", s.Printed, err, want)
	}
	err = list(t.Context(), s.Session, &reach.View{WithWatch: here, Path: "root:team-a"}, &output.Report{})
	if exit.CodeOf(err) != exit.NotFound || !strings.Contains(exit.HintOf(err), "ipam-tenant-viewer") {
		t.Errorf("in a tenant's workspace it ends with %v, hint %q; want %d, and the role", err, exit.HintOf(err), exit.NotFound)
	}
	s = stage.New(t)
	empty := &reach.View{WithWatch: stage.Server(t, interceptor.Funcs{}), Path: "root:ipam", SeesTenants: true}
	if err := list(t.Context(), s.Session, empty, &output.Report{}); err != nil || !strings.Contains(s.Said.String(), "tenant bind") {
		t.Errorf("without tenants it says %q, %v; want how to make one", s.Said, err)
	}
	s = stage.New(t)
	empty.Path, empty.SeesTenants = "", false
	if err := list(t.Context(), s.Session, empty, &output.Report{}); err != nil || !strings.Contains(s.Said.String(), "first claim") {
		t.Errorf("without kcp and tenants it says %q, %v; want that a claim makes one", s.Said, err)
	}
}
