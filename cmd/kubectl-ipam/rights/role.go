package rights

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
)

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
