package chart

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/must"
)

// The controller may ask for the identity and the rights of a user, so that it can answer queries of the history. The
// chart brings the role for these users. With a kcp, users and roles are those of the platform workspace: in the
// cluster they would have no effect, so it gets none.
func TestChart_HistoryHasItsRoles(t *testing.T) {
	t.Parallel()
	workspace := map[string]map[string]any{}
	must.Do(t, fs.WalkDir(config.PlatformRBAC(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(config.PlatformRBAC(), path)
		if err != nil {
			return err
		}
		some, err := objects(string(text))
		maps.Copy(workspace, some)
		return err
	}))
	for mode := range overlays {
		cluster := must.Get(rendered(t, namespace, map[string]any{"mode": mode}))(t)
		in := cluster
		if mode != "standalone" {
			in = workspace
			for _, role := range []string{"ipam-history-viewer", "ipam-controller"} {
				if _, ok := cluster["ClusterRole/"+role]; ok {
					t.Errorf("%s: the chart brings the role %s, which belongs into the workspace", mode, role)
				}
			}
		}
		for _, may := range []struct{ role, verb, group, resource string }{
			{"ipam-history-viewer", "get", "", "/history"},
			{"ipam-history-viewer", "get", "", "configmaps/ipam-address"},
			{"ipam-controller", "create", "authentication.k8s.io", "tokenreviews"},
			{"ipam-controller", "create", "authorization.k8s.io", "subjectaccessreviews"},
		} {
			role := &rbacv1.ClusterRole{}
			must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(in["ClusterRole/"+may.role], role))
			if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.Verbs, may.verb) && names(r, may.group, may.resource)
			}) {
				t.Errorf("%s: the role %s may not %s %s: %v", mode, may.role, may.verb, may.resource, role.Rules)
			}
		}
		bound := &rbacv1.ClusterRoleBinding{}
		must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(in["ClusterRoleBinding/ipam-controller"], bound))
		if bound.RoleRef.Name != "ipam-controller" || len(bound.Subjects) != 1 || bound.Subjects[0].Name != "ipam-controller" {
			t.Errorf("%s: the controller is bound to %v as %v; want its role", mode, bound.RoleRef, bound.Subjects)
		}
	}
}

// names reports whether a rule covers a path, a resource, or a single named object of a resource.
func names(r rbacv1.PolicyRule, group, resource string) bool {
	if slices.Contains(r.NonResourceURLs, resource) {
		return true
	}
	for _, kind := range r.Resources {
		if slices.Contains(r.APIGroups, group) && (kind == resource && len(r.ResourceNames) == 0 || slices.ContainsFunc(r.ResourceNames, func(name string) bool { return fmt.Sprint(kind, "/", name) == resource })) {
			return true
		}
	}
	return false
}
