package tenant

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/request"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/rights"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// in puts objects into a logical cluster.
func in(cluster string, objects ...client.Object) []client.Object {
	for _, object := range objects {
		object.SetAnnotations(map[string]string{"kcp.io/cluster": cluster})
	}
	return objects
}

// Each bound workspace is a tenant, even if it has no objects. Claims and pools of the platform itself are not counted.
func TestTenantList_HasEachBoundWorkspace(t *testing.T) {
	bound := stage.Bound(gen.Claim("web"), "10.64.0.0/28", stage.OfPlatform("internal-a"))
	tenants := stage.Server(t, interceptor.Funcs{}, in("1abc", bound, gen.Claim("batch"), gen.Pool("lab"))...)
	r := &session.View{
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
		if err := list(t.Context(), s.Session, r, &output.Printer{Format: format}); err != nil || !strings.Contains(s.Printed.String(), want) {
			t.Errorf("-o %q prints %q, %v; want %q", format, s.Printed, err, want)
		}
	}
}

// Without kcp, the tenants are namespaces. A caller who sees no tenants is told where they are listed.
func TestTenantList_SaysWhereTenantsAreListed(t *testing.T) {
	shop := gen.Claim("web")
	shop.Namespace = "shop"
	here := stage.Server(t, interceptor.Funcs{}, shop, gen.Claim("batch"), gen.Pool("lab"))
	s := stage.New(t)
	err := list(t.Context(), s.Session, &session.View{WithWatch: here}, &output.Printer{})
	if want := "TENANT    CLAIMS   WAITING   POOLS\ndefault   1        1         -\nshop      1        1         -\n"; err != nil || s.Printed.String() != want {
		t.Errorf("without kcp it prints %q, %v; want %q", s.Printed, err, want)
	}
	err = list(t.Context(), s.Session, &session.View{WithWatch: here, Path: "root:team-a"}, &output.Printer{})
	if exit.CodeOf(err) != exit.NotFound || !strings.Contains(exit.HintOf(err), "ipam-tenant-viewer") {
		t.Errorf("in a tenant's workspace it ends with %v, hint %q; want %d, and the role", err, exit.HintOf(err), exit.NotFound)
	}
	s = stage.New(t)
	empty := &session.View{WithWatch: stage.Server(t, interceptor.Funcs{}), Path: "root:ipam", SeesTenants: true}
	if err := list(t.Context(), s.Session, empty, &output.Printer{}); err != nil || !strings.Contains(s.Said.String(), "tenant bind") {
		t.Errorf("without tenants it says %q, %v; want how to make one", s.Said, err)
	}
	s = stage.New(t)
	empty.Path, empty.SeesTenants = "", false
	if err := list(t.Context(), s.Session, empty, &output.Printer{}); err != nil || !strings.Contains(s.Said.String(), "first claim") {
		t.Errorf("without kcp and tenants it says %q, %v; want that a claim makes one", s.Said, err)
	}
}

// On kcp, a user also needs access to the workspace. A user with a role in a namespace also needs the right to read
// classes.
func TestGrant_AddsTheRolesThatAreNeededToo(t *testing.T) {
	for name, o := range map[string]*grant{
		"grant_tenant":    {at: rights.Tenant, role: "ipam-consumer", users: []string{"alice"}, groups: []string{"dev"}},
		"grant_namespace": {at: rights.Tenant, role: "ipam-viewer", users: []string{"alice"}, namespace: "web"},
		"grant_cluster":   {at: rights.Cluster, role: "ipam-consumer", accounts: []string{"ci:bot"}, namespace: "team-b"},
	} {
		s := stage.New(t)
		o.Session, o.dryRun = s.Session, request.DryRunClient
		must.Do(t, o.show(rights.Role{Name: o.role}, o.bindings()))
		stage.Golden(t, name, s.Printed.String())
	}
}

// The output names bindings in the form that kubectl delete takes.
func TestGrant_NamesTheBindings(t *testing.T) {
	s := stage.New(t)
	o := &grant{Session: s.Session, at: rights.Tenant, role: "ipam-viewer", users: []string{"alice"}, namespace: "web", output: output.Printer{Format: output.Name}}
	must.Do(t, o.show(rights.Role{Name: o.role}, o.bindings()))
	want := "clusterrolebinding.rbac.authorization.k8s.io/ipam:access:user:alice\n" +
		"clusterrolebinding.rbac.authorization.k8s.io/ipam:class-viewer:user:alice\n" +
		"rolebinding.rbac.authorization.k8s.io/ipam:viewer:user:alice\n"
	if s.Printed.String() != want {
		t.Errorf("-o name prints\n%s\nwant\n%s", s.Printed, want)
	}
}

// Two subjects never share a binding, whatever their names are.
func TestBindingName_DiffersForEachSubject(t *testing.T) {
	taken := map[string]rbacv1.Subject{}
	for _, subject := range []rbacv1.Subject{
		{Kind: "User", Name: "alice"}, {Kind: "Group", Name: "alice"}, {Kind: "ServiceAccount", Namespace: "alice", Name: "alice"},
		{Kind: "User", Name: "https://issuer#alice"}, {Kind: "User", Name: "https:--issuer#alice"}, {Kind: "User", Name: "https:/-issuer#alice"},
		{Kind: "User", Name: ":alice"}, {Kind: "User", Name: "a%b"}, {Kind: "User", Name: "a/b"}, {Kind: "User", Name: "a-b"},
	} {
		name := bindingName("ipam-viewer", subject)
		if other, ok := taken[name]; ok {
			t.Errorf("%v and %v share the binding %s", subject, other, name)
		}
		taken[name] = subject
	}
	if got, want := bindingName("ipam-consumer", rbacv1.Subject{Kind: "User", Name: "alice"}), "ipam:consumer:user:alice"; got != want {
		t.Errorf("alice's binding is %q, want %q", got, want)
	}
}

// If a role would apply to more or less than the user meant, it is refused before any request.
func TestGrant_RefusesAWrongScope(t *testing.T) {
	viewer, admin := rights.Role{Name: "ipam-viewer", InNamespace: true}, rights.Role{Name: "ipam-pool-admin"}
	for _, tt := range []struct {
		o    grant
		role rights.Role
		want int
	}{
		{grant{at: rights.Tenant}, viewer, exit.OK},
		{grant{at: rights.Tenant, namespace: "web"}, viewer, exit.OK},
		{grant{at: rights.Tenant, namespace: "web"}, admin, exit.Usage},
		{grant{at: rights.Tenant, namespace: "web", everywhere: true}, viewer, exit.Usage},
		{grant{at: rights.Cluster}, viewer, exit.Usage},
		{grant{at: rights.Cluster}, admin, exit.OK},
		{grant{at: rights.Cluster, everywhere: true}, viewer, exit.OK},
	} {
		if err := tt.o.checkScope(tt.role); exit.CodeOf(err) != tt.want {
			t.Errorf("%s in %s, namespace %q, all %t: %v; want code %d", tt.role.Name, tt.o.at, tt.o.namespace, tt.o.everywhere, err, tt.want)
		}
	}
}

// The kubeconfig contains the CA itself, and the token of the controller.
func TestKubeconfigOf_NeedsNoOtherFile(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	must.Do(t, os.WriteFile(ca, []byte("the CA"), 0o600))
	got := must.Get(kubeconfigOf(&rest.Config{
		Host: "https://kcp.example:6443/clusters/root:ipam", BearerToken: "the token", TLSClientConfig: rest.TLSClientConfig{CAFile: ca},
	}))(t)
	stage.Golden(t, "controller_kubeconfig", string(got))
}

// A file that others could read is replaced by a file that only its owner can read.
func TestWritePrivate_ReplacesAReadableFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, os.WriteFile(name, []byte("old"), 0o644))
	must.Do(t, writePrivate(name, []byte("new")))
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %v, %v; want mode 0600", info.Mode(), err)
	}
	if data, err := os.ReadFile(name); err != nil || string(data) != "new" {
		t.Errorf("the file holds %q, %v; want new", data, err)
	}
	if err := writePrivate(filepath.Join(name, "below"), nil); err == nil {
		t.Error("a file below a file was written")
	}
}

// On a cluster without kcp, the commands about workspaces name the way for such a cluster, and no way for kcp.
func TestInit_NamesStandaloneWithoutKCP(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for name, run := range map[string]func(*session.Session) error{
		"init": func(s *session.Session) error { return initialise(t.Context(), s, newWorkspace{path: "root:ipam"}) },
		"bind": func(s *session.Session) error {
			return bindTenant(t.Context(), s, newWorkspace{path: "root:team-a"}, "root:ipam")
		},
	} {
		s := stage.New(t)
		*s.Flags.APIServer = server.URL
		err := run(s.Session)
		if hint := exit.HintOf(err); exit.CodeOf(err) != exit.Unavailable || !strings.Contains(hint, "--standalone") {
			t.Errorf("%s ends with %d, %v, and the hint %q; want %d, and the way without kcp", name, exit.CodeOf(err), err, hint, exit.Unavailable)
		}
	}
}
