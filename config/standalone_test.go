package config

import (
	"io/fs"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The policies for a cluster without kcp refuse the same as those for kcp, except that other users count as the
// system. There are no slices.
func TestStandalone_HasThePoliciesOfKCP(t *testing.T) {
	ours, kcps := policiesOf(t, StandalonePolicies()), policies(t)
	delete(kcps, "ipam-slices")
	for name, theirs := range kcps {
		bound, ok := ours[name]
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		our, spec := bound.spec, theirs.spec
		if len(our.MatchConditions) < len(spec.MatchConditions) {
			t.Errorf("%s: it exempts less than that of kcp", name)
		}
		our.MatchConditions, spec.MatchConditions = nil, nil
		if !equality.Semantic.DeepEqual(our, spec) {
			t.Errorf("%s is\n%+v\nand that of kcp\n%+v", name, our, spec)
		}
	}
	if len(ours) != len(kcps) {
		t.Errorf("there are %d policies; want %d", len(ours), len(kcps))
	}
}

// In a cluster without kcp, the names of service accounts are unique. A service account of the cluster deletes
// namespaces, and their records with them.
func TestStandalone_AdmitsTheSystemsAccounts(t *testing.T) {
	all := policiesOf(t, StandalonePolicies())
	allocation, status := gen.Allocation("web", "p", "10.0.0.0/28"), gen.Claim("c")
	named := func(name string, groups ...string) user.Info { return &user.DefaultInfo{Name: name, Groups: groups} }
	namespaces := named("system:serviceaccount:kube-system:namespace-controller")
	for _, tt := range []struct {
		request
		refused bool
	}{
		{request{named("system:serviceaccount:ipam-system:ipam-controller"), admission.Create, "ipallocations", allocation}, false},
		{request{named("system:serviceaccount:ipam-system:ipam-controller"), admission.Update, "ipclaims/status", status}, false},
		{request{named("root", "system:masters"), admission.Update, "ipclaims/status", status}, false},
		{request{namespaces, admission.Delete, "ipallocations", allocation}, false},
		{request{namespaces, admission.Update, "ipclaims/status", status}, true},
		{request{named("system:serviceaccount:default:ipam-controller"), admission.Update, "ipclaims/status", status}, true},
		{request{named("admin", "system:authenticated"), admission.Delete, "ipallocations", allocation}, true},
		{request{named("admin", "system:authenticated"), admission.Create, "ipallocations", allocation}, true},
	} {
		if denied := tt.denied(t, all); len(denied) > 0 != tt.refused {
			t.Errorf("%s of %s by %s: refused with %q; want a refusal: %t", tt.operation, tt.resource, tt.by.GetName(), denied, tt.refused)
		}
	}
}

// Without kcp, the controller has the same rights on the kinds of the API as with kcp, and none on the kinds of kcp.
func TestStandalone_GivesTheControllerTheRightsOfKCP(t *testing.T) {
	ours, kcps := roleOf(t, StandaloneRBAC()), roleOf(t, PlatformRBAC())
	if got, want := grants(ours.Rules), grants(kcps.Rules); !slices.Equal(got, want) {
		t.Errorf("it may\n%q\nand in kcp\n%q", got, want)
	}
	for _, rule := range ours.Rules {
		known := []string{"", "admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "events.k8s.io", ipamv1alpha1.GroupName}
		if slices.ContainsFunc(rule.APIGroups, func(group string) bool { return !slices.Contains(known, group) }) ||
			len(rule.NonResourceURLs) > 0 || slices.Contains(rule.Resources, "secrets") {
			t.Errorf("it needs no %v", rule)
		}
	}
}

func roleOf(t *testing.T, tree fs.FS) *rbacv1.ClusterRole {
	t.Helper()
	for _, role := range loadAs[*rbacv1.ClusterRole](t, tree) {
		if role.Name == controller {
			return role
		}
	}
	t.Fatal("there is no role of the controller")
	return nil
}
