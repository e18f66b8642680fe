package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Tenant is a workspace that binds the API of a platform, and a client of it: a user
// with the roles of a tenant's people.
type Tenant struct {
	client.WithWatch

	// Path and Cluster name the workspace.
	Path    string
	Cluster logicalcluster.Name

	platform string
	access   *rest.Config
}

// Tenant makes a tenant of the platform, in a new lean workspace below root. With [Platform.TenantAt], the workspace
// is made as users make it.
func (p *Platform) Tenant(t testing.TB) *Tenant {
	t.Helper()
	path := fmt.Sprintf("root:team-%d", current(t).serial.Add(1))
	must.Do(t, current(t).makeLean(t.Context(), path))
	return p.TenantAt(t, path)
}

// TenantAt makes a tenant of the platform in the workspace at a path.
func (p *Platform) TenantAt(t testing.TB, path string) *Tenant {
	t.Helper()
	tenant := &Tenant{Path: path, platform: p.Path}
	tenant.Bind(t)
	access := must.Get(newUser(t.Context(), current(t).kcp, path, "ipam-pool-admin", "edit"))(t)
	tenant.access = access
	tenant.WithWatch = tenant.In(t, path)
	return tenant
}

// In returns a client of another workspace for the same user. The user has no rights in that workspace.
func (tn *Tenant) In(t testing.TB, workspace string) client.WithWatch {
	t.Helper()
	return must.Get(workspaces.NewClient(workspaces.At(tn.access, workspace)))(t)
}

// Bind binds the API again after Unbind.
func (tn *Tenant) Bind(t testing.TB) {
	t.Helper()
	cluster := must.Get(workspaces.EnsureTenant(t.Context(), AdminConfig(t), workspaces.TenantOptions{
		Workspace: tn.Path,
		Platform:  tn.platform,
	}))(t)
	tn.Cluster = cluster
}

// Leave deletes the binding as the owner of the workspace does, and waits until kcp no longer serves the API: from
// then on it asks no webhook and no policy of the export.
func (tn *Tenant) Leave(t testing.TB) {
	t.Helper()
	owner := tn.OwnerConfig(t)
	c := must.Get(workspaces.NewClient(owner))(t)
	Eventually(t, "the owner to unbind", func(ctx context.Context) error { return Unbind(ctx, owner, tn.Path) })
	Eventually(t, "kcp to serve the API no more", func(ctx context.Context) error {
		err := c.List(ctx, &ipamv1alpha1.IPClaimList{})
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil
		}
		return fmt.Errorf("a list of claims ends with %w", cmp.Or(err, errors.New("no error")))
	})
}

// Unbind removes the API from the workspace, and waits until the API is gone with all of its objects there.
func (tn *Tenant) Unbind(t testing.TB) {
	t.Helper()
	must.Do(t, retry.Do(t.Context(), 3*time.Minute, "unbind "+tn.Path, func(ctx context.Context) error {
		return Unbind(ctx, AdminConfig(t), tn.Path)
	}))
}

// Unbind deletes the APIBinding of a workspace. It returns an error until the binding is gone.
func Unbind(ctx context.Context, admin *rest.Config, workspace string) error {
	c, err := workspaces.NewClient(workspaces.At(admin, workspace))
	if err != nil {
		return err
	}
	binding := &apisv1alpha2.APIBinding{}
	binding.Name = workspaces.BindingName
	err = c.Delete(ctx, binding)
	if absent.Object(err, "apibindings", binding.Name) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.New("the APIBinding is being deleted")
}

// DeleteWorkspace deletes the workspace with all that is in it, and waits until it
// is gone.
func (tn *Tenant) DeleteWorkspace(t testing.TB) {
	t.Helper()
	parent, name := logicalcluster.NewPath(tn.Path).Split()
	workspace := &tenancyv1alpha1.Workspace{}
	workspace.Name = name
	admin := Admin(t, parent.String())
	Delete(t, admin, workspace)
	WaitGone(t, admin, workspace)
}

// Owner returns another user, with every right in the tenant's workspace and
// nothing elsewhere.
func (tn *Tenant) Owner(t testing.TB) client.WithWatch {
	t.Helper()
	return tn.User(t, "cluster-admin")
}

// OwnerConfig returns the access of another user, with every right in the tenant's workspace
// and nothing elsewhere.
func (tn *Tenant) OwnerConfig(t testing.TB) *rest.Config {
	t.Helper()
	return must.Get(newUser(t.Context(), current(t).kcp, tn.Path, "cluster-admin"))(t)
}

// User returns another user with these cluster roles in the tenant's workspace
// and no right elsewhere.
func (tn *Tenant) User(t testing.TB, roles ...string) client.WithWatch {
	t.Helper()
	return user(t, current(t).kcp, tn.Path, roles...)
}

// Config returns the access of the tenant's user to the workspace.
func (tn *Tenant) Config() *rest.Config { return workspaces.At(tn.access, tn.Path) }

// newUser returns the access of a new user to a workspace. There, and nowhere else, the user can enter, create
// namespaces, and has these cluster roles.
func newUser(ctx context.Context, g ground, workspace string, roles ...string) (*rest.Config, error) {
	user, err := g.TakeUser()
	if err != nil {
		return nil, err
	}
	admin, err := g.At(workspace)
	if err != nil {
		return nil, err
	}
	c, err := workspaces.NewClient(admin)
	if err != nil {
		return nil, err
	}
	enter := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{
		{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"*"}},
	}}
	enter.Name = "enter-as-" + user.Name
	if err := c.Create(ctx, enter); err != nil {
		return nil, fmt.Errorf("make user %s in %s: %w", user.Name, workspace, err)
	}
	for _, role := range append(roles, enter.Name) {
		binding := &rbacv1.ClusterRoleBinding{
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Name}},
		}
		binding.Name = user.Name + "-" + role
		if err := c.Create(ctx, binding); err != nil {
			return nil, fmt.Errorf("make user %s in %s: %w", user.Name, workspace, err)
		}
	}
	cfg, err := g.As(user, workspace)
	if err != nil {
		return nil, err
	}
	return cfg, entered(ctx, cfg)
}

// entered waits until the server knows that the user may enter. The server learns of a new binding a moment after it
// has stored it. It has learned of all earlier bindings before.
func entered(ctx context.Context, cfg *rest.Config) error {
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	return retry.Do(ctx, Patience, "wait for a new user to be let in at "+cfg.Host, func(ctx context.Context) error {
		return c.RESTClient().Get().AbsPath("/api").Do(ctx).Error()
	})
}

// newClient returns a client of a workspace for a new user with these cluster roles.
func newClient(ctx context.Context, g ground, workspace string, roles ...string) (client.WithWatch, error) {
	cfg, err := newUser(ctx, g, workspace, roles...)
	if err != nil {
		return nil, err
	}
	return workspaces.NewClient(cfg)
}

// user returns a client as newClient does.
func user(t testing.TB, g ground, workspace string, roles ...string) client.WithWatch {
	t.Helper()
	return must.Get(newClient(t.Context(), g, workspace, roles...))(t)
}
