// Package rights knows the roles of this API: which there are in a place, and which of them a refused
// request needs.
package rights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/config"
)

// Place is a kind of workspace or cluster. The zero value is an unknown one.
type Place string

const (
	// Closed is a workspace that the caller cannot enter. One that does not exist looks the same.
	Closed Place = "a workspace that you cannot enter"
	// Unbound does not serve the API.
	Unbound Place = "a workspace without the IPAM API"
	// Tenant is the workspace of a tenant.
	Tenant Place = "the workspace of a tenant"
	// Platform is the workspace of the platform.
	Platform Place = "the workspace of the platform"
	// Cluster is a cluster without kcp.
	Cluster Place = "a cluster without kcp"
)

// Find asks the server for the kind of the place. An error says that the server gave no answer.
func Find(server discovery.ServerResourcesInterface) (Place, error) {
	served, err := server.ServerResourcesForGroupVersion(ipamv1alpha1.GroupVersion.String())
	switch {
	case apierrors.IsForbidden(err):
		return Closed, nil
	case apierrors.IsNotFound(err):
		return Unbound, nil
	case err != nil:
		return "", err
	}
	at := Unbound // where kcp answers with an empty list
	for _, resource := range served.APIResources {
		switch {
		case resource.Name == "ipclasses" && slices.Contains(resource.Verbs, "create"):
			return writable(server)
		case resource.Name == "ipclaims":
			at = Tenant
		}
	}
	return at, nil
}

// writable returns the kind of a place whose classes can be written: tenants can only read them.
func writable(server discovery.ServerResourcesInterface) (Place, error) {
	_, err := server.ServerResourcesForGroupVersion(apisv1alpha2.SchemeGroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		return Cluster, nil
	case err != nil:
		return "", err
	}
	return Platform, nil
}

// Role is one of the roles for people.
type Role struct {
	// Name is that of the ClusterRole.
	Name string
	// May says in words what the role allows.
	May string
	// InNamespace is whether it can be granted in one namespace: nothing that only this role allows is beyond it.
	InNamespace bool
	rules       []rbacv1.PolicyRule
}

// ClassViewer is the role, in all of a place, of a user with another role in one namespace: classes have no namespace.
const ClassViewer = "ipam-class-viewer"

// known are the roles for people, those that allow less first.
var known = []Role{
	{Name: ClassViewer, May: "read classes"},
	{Name: "ipam-viewer", May: "read everything", InNamespace: true},
	{Name: "ipam-tenant-viewer", May: "read everything, and what all tenants have"},
	{Name: "ipam-consumer", May: "write claims, and read everything", InNamespace: true},
	{Name: "ipam-pool-admin", May: "write pools and claims, delete retained allocations, and read everything"},
	{Name: "ipam-class-admin", May: "write classes, and read pools"},
	{Name: "ipam-shared-pool-admin", May: "write pools, and read classes and allocations"},
}

// Roles returns the roles for people of a place, those that allow less first. There are none where the API is not served.
func Roles(at Place) ([]Role, error) {
	var manifests fs.FS
	switch at {
	case Tenant:
		manifests = config.TenantRBAC()
	case Platform:
		manifests = config.PlatformRBAC()
	case Cluster:
		manifests = config.StandaloneRBAC()
	default:
		return nil, nil
	}
	rules, err := rulesIn(manifests)
	if err != nil {
		return nil, err
	}
	var roles []Role
	for _, role := range known {
		if role.rules = rules[role.Name]; role.rules != nil {
			roles = append(roles, role)
		}
	}
	return roles, nil
}

// rulesIn returns the rules of each ClusterRole in a folder.
func rulesIn(manifests fs.FS) (map[string][]rbacv1.PolicyRule, error) {
	rules := map[string][]rbacv1.PolicyRule{}
	files, err := fs.Glob(manifests, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		content, err := manifests.Open(file)
		if err != nil {
			return nil, err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(content, 4096)
		for err == nil {
			role := &rbacv1.ClusterRole{}
			if err = decoder.Decode(role); err == nil && role.Kind == "ClusterRole" {
				rules[role.Name] = role.Rules
			}
		}
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("manifest %s: %w", file, err)
		}
	}
	return rules, nil
}

// allows reports whether the role allows a verb on a kind of this API.
func (r Role) allows(verb, resource string) bool {
	return slices.ContainsFunc(r.rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, ipamv1alpha1.GroupName) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
	})
}

// Refusal is a request that a server refused since its user may not make it.
type Refusal struct {
	User, Verb, Resource, Group string
	// Namespace is empty for an object without one, and for a request about all namespaces.
	Namespace string
}

// refused matches what API servers say of such a request.
var refused = regexp.MustCompile(`User "([^"]+)" cannot (\w+) (?:resource "([^"]+)" in API group "([^"]*)"|path)(?: in the namespace "([^"]+)")?`)

// RefusalOf returns the request that an error refuses. It is false for an error of another kind, such as the
// refusal of a quota or of a policy: more rights would change nothing.
func RefusalOf(err error) (Refusal, bool) {
	if !apierrors.IsForbidden(err) {
		return Refusal{}, false
	}
	said := refused.FindStringSubmatch(err.Error())
	if said == nil {
		return Refusal{}, false
	}
	return Refusal{User: said[1], Verb: said[2], Resource: said[3], Group: said[4], Namespace: said[5]}, true
}

// For returns the refusal with the verb that the user needs in the end, if the refused request is one that reads: with the
// right to read alone, the next request would be refused.
func (r Refusal) For(verb string) Refusal {
	if verb != "" && slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
		r.Verb = verb
	}
	return r
}

// Remedy returns the way to the right to make the request in a place; empty if no role of this API gives it.
func (r Refusal) Remedy(at Place) string {
	switch {
	case r.User == "system:anonymous":
		return "log in: the server does not know who you are"
	case at == Closed:
		return fmt.Sprintf("you cannot enter this workspace, if there is one: an admin of it can run kubectl ipam grant ROLE %s; "+
			"--context or --server names another one", r.subject())
	case r.Group != ipamv1alpha1.GroupName:
		return ""
	}
	roles, _ := Roles(at)
	for _, role := range roles {
		if role.allows(r.Verb, r.Resource) {
			return "an admin of " + here(at) + " can run kubectl ipam grant " + role.Name + " " + r.subject() + r.scope(at, role)
		}
	}
	return r.withoutRole(at)
}

// withoutRole returns the way of a request that no role allows.
func (r Refusal) withoutRole(at Place) string {
	switch {
	case at == Tenant && r.Resource == "ipclasses":
		return "classes are changed by the platform's admins; here they can only be read"
	case at == Platform && r.Resource == "ipclaims":
		return "no role of the platform's workspace allows it: claim in the workspace of a tenant, which --context or --server names"
	case r.Resource == "ipallocations", strings.Contains(r.Resource, "/"):
		return "only the controller does that"
	}
	return ""
}

func here(at Place) string {
	if at == Cluster {
		return "this cluster"
	}
	return "this workspace"
}

// subject returns the user as a flag of kubectl ipam grant.
func (r Refusal) subject() string {
	if r.User == "" {
		return "--user NAME"
	}
	if account, ok := strings.CutPrefix(r.User, "system:serviceaccount:"); ok {
		return "--serviceaccount " + legible.Argument(account)
	}
	return "--user " + legible.Argument(r.User)
}

// scope says where the role is enough. Without kcp the namespaces are the tenants.
func (r Refusal) scope(at Place, role Role) string {
	switch {
	case at != Cluster || !role.InNamespace:
		return ""
	case r.Namespace == "":
		return " --all-namespaces"
	}
	return " --namespace " + r.Namespace
}
