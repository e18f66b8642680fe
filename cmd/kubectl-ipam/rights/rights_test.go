package rights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
)

// forbidden returns the error of a server for a request that a user may not make.
func forbidden(user, verb, resource, namespace string) error {
	scope := "at the cluster scope"
	if namespace != "" {
		scope = fmt.Sprintf("in the namespace %q", namespace)
	}
	return fmt.Errorf("list: %w", apierrors.NewForbidden(ipamv1alpha1.Resource(resource), "",
		fmt.Errorf(`User %q cannot %s resource %q in API group %q %s: access denied`, user, verb, resource, ipamv1alpha1.GroupName, scope)))
}

// A hint has a command for an admin. The command names a role that exists in the place, and allows the request.
func TestRemedy_NamesARoleOfThePlace(t *testing.T) {
	for _, tt := range []struct {
		at        Place
		user      string
		verb      string
		resource  string
		namespace string
		want      string
	}{
		{Tenant, "bob", "list", "ipclaims", "default", "grant ipam-viewer --user bob"},
		{Tenant, "bob", "list", "ipclasses", "", "grant ipam-class-viewer --user bob"},
		{Tenant, "bob", "create", "ipclaims", "web", "grant ipam-consumer --user bob"},
		{Tenant, "bob", "create", "ippools", "", "grant ipam-pool-admin --user bob"},
		{Tenant, "bob", "delete", "ipallocations", "web", "grant ipam-pool-admin --user bob"},
		{Tenant, "bob", "create", "ipclasses", "", "the platform's admins"},
		{Tenant, "bob", "patch", "ippools/status", "", "only the controller"},
		{Platform, "carol", "create", "ippools", "", "grant ipam-shared-pool-admin --user carol"},
		{Platform, "dave", "create", "ipclasses", "", "grant ipam-class-admin --user dave"},
		{Platform, "dave", "list", "ipclaims", "", "grant ipam-tenant-viewer --user dave"},
		{Platform, "carol", "create", "ipclaims", "default", "claim in the workspace of a tenant"},
		{Cluster, "zoe", "create", "ipclaims", "team-b", "grant ipam-consumer --user zoe --namespace team-b"},
		{Cluster, "zoe", "list", "ipclaims", "", "grant ipam-viewer --user zoe --all-namespaces"},
		{Cluster, "zoe", "list", "ipclasses", "", "grant ipam-class-viewer --user zoe"},
		{Cluster, "zoe", "create", "ipclasses", "", "grant ipam-class-admin --user zoe"},
		{Cluster, "system:serviceaccount:ci:bot", "create", "ipclaims", "ci", "grant ipam-consumer --serviceaccount ci:bot --namespace ci"},
		{Closed, "it's me", "list", "ipclaims", "", `you cannot enter this workspace, if there is one: an admin of it can run kubectl ipam grant ROLE --user 'it'"'"'s me'`},
		{Tenant, "system:anonymous", "list", "ipclaims", "", "log in"},
	} {
		refusal, ok := RefusalOf(forbidden(tt.user, tt.verb, tt.resource, tt.namespace))
		if got := refusal.Remedy(tt.at); !ok || !strings.Contains(got, tt.want) {
			t.Errorf("%s may not %s %s in %s: the hint is %q; want %q", tt.user, tt.verb, tt.resource, tt.at, got, tt.want)
		}
	}
}

// If a command reads and then writes, the hint names a role that allows both.
func TestRefusal_NamesTheRoleOfACommandThatWrites(t *testing.T) {
	refusal, _ := RefusalOf(forbidden("zoe", "get", "ipclaims", "default"))
	for verb, want := range map[string]string{"": "ipam-viewer", "create": "ipam-consumer", "delete": "ipam-consumer"} {
		if got := refusal.For(verb).Remedy(Cluster); !strings.Contains(got, want+" --user zoe --namespace default") {
			t.Errorf("for %q the hint is %q, want one with %s", verb, got, want)
		}
	}
}

// If a quota, a policy or another API group is the cause, no role of this API is advised.
func TestRefusalOf_IgnoresOtherCauses(t *testing.T) {
	for _, err := range []error{
		apierrors.NewForbidden(ipamv1alpha1.Resource("ipclaims"), "a", errors.New("exceeded quota: few, requested: count/ipclaims=1")),
		apierrors.NewNotFound(ipamv1alpha1.Resource("ipclaims"), `User "x" cannot get resource "y" in API group ""`),
	} {
		if refusal, ok := RefusalOf(err); ok {
			t.Errorf("%v is taken for a refusal of %+v", err, refusal)
		}
	}
	other, _ := RefusalOf(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "a", errors.New(`User "bob" cannot get resource "secrets" in API group "" in the namespace "a"`)))
	if got := other.Remedy(Tenant); got != "" || other.User != "bob" {
		t.Errorf("the refusal %+v has the hint %q; want bob's, and none", other, got)
	}
}

// Each role for people in the manifests is known, has a description, and allows what its manifest allows.
func TestRoles_AreThoseOfTheManifests(t *testing.T) {
	for at, manifests := range map[Place]fs.FS{Tenant: config.TenantRBAC(), Platform: config.PlatformRBAC(), Cluster: config.StandaloneRBAC()} {
		rules, roles := rulesIn(t, manifests), Roles(at)
		for name := range rules {
			system := slices.Contains([]string{"ipam-controller", "ipam-bind", "ipam-maximal-permissions", "view", "edit", "admin"}, name)
			if slices.ContainsFunc(roles, func(r Role) bool { return r.Name == name && r.May != "" }) == system {
				t.Errorf("%s has the ClusterRole %s; want it to be known as a role for people: %t", at, name, !system)
			}
		}
		for _, role := range roles {
			for _, resource := range all {
				for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
					want := slices.ContainsFunc(rules[role.Name], func(rule rbacv1.PolicyRule) bool {
						return slices.Contains(rule.APIGroups, ipamv1alpha1.GroupName) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
					})
					if got := role.allows(verb, resource); got != want {
						t.Errorf("in %s the role %s allows to %s %s: %t, want %t as in its manifest", at, role.Name, verb, resource, got, want)
					}
				}
			}
		}
	}
}

// rulesIn returns the rules of each ClusterRole in a folder of manifests.
func rulesIn(t *testing.T, manifests fs.FS) map[string][]rbacv1.PolicyRule {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	files, err := fs.Glob(manifests, "*.yaml")
	for _, file := range files {
		var content fs.File
		if content, err = manifests.Open(file); err != nil {
			break
		}
		decoder := yaml.NewYAMLOrJSONDecoder(content, 4096)
		for err == nil {
			role := &rbacv1.ClusterRole{}
			if err = decoder.Decode(role); err == nil && role.Kind == "ClusterRole" {
				rules[role.Name] = role.Rules
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil || len(rules) == 0 {
		t.Fatalf("the manifests have %d roles, and reading them ends with %v", len(rules), err)
	}
	return rules
}

// serving is a server that serves resources, or answers with an error, by group and version.
type serving struct {
	discovery.ServerResourcesInterface
	resources map[string]metav1.Verbs
	kcp, ipam error
}

func (s serving) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	if groupVersion != ipamv1alpha1.GroupVersion.String() {
		return &metav1.APIResourceList{}, s.kcp
	}
	list := &metav1.APIResourceList{}
	for name, verbs := range s.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Verbs: verbs})
	}
	return list, s.ipam
}

func TestFind_TellsPlacesApart(t *testing.T) {
	unserved := apierrors.NewNotFound(schema.GroupResource{}, "")
	shown, written := metav1.Verbs{"get", "list", "watch"}, metav1.Verbs{"create", "get", "list"}
	for want, server := range map[Place]serving{
		Closed:   {ipam: apierrors.NewForbidden(schema.GroupResource{}, "", nil)},
		Unbound:  {ipam: unserved},
		Tenant:   {resources: map[string]metav1.Verbs{"ipclaims": written, "ipclasses": shown}},
		Platform: {resources: map[string]metav1.Verbs{"ipclasses": written}},
		Cluster:  {resources: map[string]metav1.Verbs{"ipclasses": written}, kcp: unserved},
	} {
		if got, err := Find(server); got != want || err != nil {
			t.Errorf("found %q, %v; want %q", got, err, want)
		}
	}
	if got, err := Find(serving{}); got != Unbound || err != nil {
		t.Errorf("a list without a resource is %q, %v; want %q", got, err, Unbound)
	}
	if got, err := Find(serving{ipam: errors.New("connection refused")}); err == nil {
		t.Errorf("a server that does not answer is %q; want an error", got)
	}
}
