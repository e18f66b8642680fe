package tenant

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/request"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/rights"
	"github.com/kcp-ipam/ipam/test/stage"
)

// On kcp a role needs access to the workspace beside it, and in a namespace the right to read classes.
func TestGrant_Bindings(t *testing.T) {
	for name, o := range map[string]*grant{
		"grant_tenant":    {at: rights.Tenant, role: "ipam-consumer", users: []string{"alice"}, groups: []string{"dev"}},
		"grant_namespace": {at: rights.Tenant, role: "ipam-viewer", users: []string{"alice"}, namespace: "web"},
		"grant_cluster":   {at: rights.Cluster, role: "ipam-consumer", accounts: []string{"ci:bot"}, namespace: "team-b"},
	} {
		s := stage.New(t)
		o.Session, o.dryRun = s.Session, request.DryRunClient
		if err := o.show(rights.Role{Name: o.role}, o.bindings()); err != nil {
			t.Fatalf("show: %v", err)
		}
		stage.Golden(t, name, s.Printed.String())
	}
}

// Two subjects never share a binding, whatever their names.
func TestBindingName(t *testing.T) {
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

// A role for more or less than was meant is refused before anything is sent.
func TestGrant_Scope(t *testing.T) {
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
