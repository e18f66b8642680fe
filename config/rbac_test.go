package config

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

const controller = "ipam-controller"

// grants returns verb and resource of each right on the kinds of this API, as
// "verb resource".
func grants(rules []rbacv1.PolicyRule) []string {
	var granted []string
	for _, rule := range rules {
		if !slices.Contains(rule.APIGroups, ipamv1alpha1.GroupName) && !slices.Contains(rule.APIGroups, rbacv1.APIGroupAll) {
			continue
		}
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				granted = append(granted, verb+" "+resource)
			}
		}
	}
	return granted
}

func clusterRoles(t *testing.T) map[string]*rbacv1.ClusterRole {
	t.Helper()
	roles := map[string]*rbacv1.ClusterRole{}
	for _, tree := range []fs.FS{PlatformRBAC(), TenantRBAC()} {
		for _, role := range loadAs[*rbacv1.ClusterRole](t, tree) {
			roles[role.Name] = role
		}
	}
	return roles
}

// isRead reports whether a right changes nothing.
func isRead(grant string) bool {
	verb, _, _ := strings.Cut(grant, " ")
	return slices.Contains([]string{"get", "list", "watch"}, verb)
}

func TestRBAC_OnlyTheControllerWritesStatusAndAllocations(t *testing.T) {
	for name, role := range clusterRoles(t) {
		if name == controller {
			continue
		}
		for _, grant := range grants(role.Rules) {
			verb, resource, _ := strings.Cut(grant, " ")
			if resource == rbacv1.ResourceAll || strings.Contains(resource, "/") {
				t.Errorf("%s may %s", name, grant)
			}
			frees := verb == "delete" || verb == "deletecollection"
			if resource == "ipallocations" && !isRead(grant) && !frees {
				t.Errorf("%s may %s", name, grant)
			}
		}
	}
}

func TestRBAC_BoundsTheRightsOfTenants(t *testing.T) {
	got := grants(clusterRoles(t)["ipam-maximal-permissions"].Rules)
	want := []string{
		"* ipclaims", "* ippools",
		"get ipallocations", "list ipallocations", "watch ipallocations", "delete ipallocations", "deletecollection ipallocations",
		"get ipclasses", "list ipclasses", "watch ipclasses",
	}
	if !slices.Equal(got, want) {
		t.Errorf("tenants may at most %q, want %q", got, want)
	}
	for _, binding := range loadAs[*rbacv1.ClusterRoleBinding](t, PlatformRBAC()) {
		if binding.RoleRef.Name != "ipam-maximal-permissions" {
			continue
		}
		if len(binding.Subjects) != 1 || binding.Subjects[0].Name != "apis.kcp.io:binding:system:authenticated" {
			t.Errorf("they are granted to %v", binding.Subjects)
		}
	}
}

// What the controller may do is what its code does, and not a verb more: it patches and
// never updates, and makes nothing but allocations, pools for scopes, events and its own webhooks.
func TestRBAC_GrantsTheControllerOnlyWhatItUses(t *testing.T) {
	want := []string{
		"access /",
		"get create patch delete list watch apis.kcp.io/apiexports/content ipam.miloapis.com",
		"get apis.kcp.io/apiexports ipam.miloapis.com",
		"get list watch apis.kcp.io/apiexportendpointslices ipam.miloapis.com",
		"get list watch patch ipam.miloapis.com/ipclasses",
		"get list watch create patch delete ipam.miloapis.com/ippools",
		"get list watch ipam.miloapis.com/ipclaims",
		"patch ipam.miloapis.com/ipclasses/status",
		"patch ipam.miloapis.com/ippools/status",
		"patch ipam.miloapis.com/ipclaims/status",
		"get list watch create patch delete ipam.miloapis.com/ipallocations",
		"create patch /events",
		"create patch events.k8s.io/events",
		"get create patch delete admissionregistration.k8s.io/mutatingwebhookconfigurations ipam.miloapis.com",
		"get create patch delete admissionregistration.k8s.io/validatingwebhookconfigurations ipam.miloapis.com",
		"create authentication.k8s.io/tokenreviews",
		"create authorization.k8s.io/subjectaccessreviews",
	}
	rules := clusterRoles(t)[controller].Rules
	for i := range want {
		want[i] = sorted(want[i])
	}
	var got []string
	for _, rule := range rules {
		verbs, names := strings.Join(rule.Verbs, " "), strings.Join(rule.ResourceNames, " ")
		for _, url := range rule.NonResourceURLs {
			got = append(got, sorted(verbs+" "+url))
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				got = append(got, sorted(verbs+" "+group+"/"+resource+" "+names))
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the controller may (-want +got):\n%s", diff)
	}
}

// sorted returns the words of a line in order.
func sorted(line string) string {
	words := strings.Fields(line)
	slices.Sort(words)
	return strings.Join(words, " ")
}

func TestRBAC_People(t *testing.T) {
	roles := clusterRoles(t)
	for _, tt := range []struct {
		role   string
		writes []string // resources that the role may create, change or delete
		under  []string // the usual roles that it is part of
	}{
		{"ipam-class-viewer", nil, nil},
		{"ipam-viewer", nil, []string{"admin", "edit", "view"}},
		{"ipam-consumer", []string{"ipclaims"}, []string{"admin", "edit"}},
		{"ipam-pool-admin", []string{"ipallocations", "ipclaims", "ippools"}, []string{"admin"}},
		{"ipam-class-admin", []string{"ipclasses"}, []string{"admin"}},
		{"ipam-shared-pool-admin", []string{"ippools"}, []string{"admin"}},
	} {
		t.Run(tt.role, func(t *testing.T) {
			var writes, under []string
			for _, grant := range grants(roles[tt.role].Rules) {
				if !isRead(grant) {
					writes = append(writes, grant[strings.Index(grant, " ")+1:])
				}
			}
			slices.Sort(writes)
			if got := slices.Compact(writes); !slices.Equal(got, tt.writes) {
				t.Errorf("it writes %v, want %v", got, tt.writes)
			}
			for label := range roles[tt.role].Labels {
				under = append(under, strings.TrimPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"))
			}
			slices.Sort(under)
			if !slices.Equal(under, tt.under) {
				t.Errorf("it is part of %v, want %v", under, tt.under)
			}
		})
	}
}
