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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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

// Tenant makes a tenant of the platform, in a lean workspace of its own below root. [Platform.TenantAt] makes one as users do.
func (p *Platform) Tenant(t testing.TB) *Tenant {
	t.Helper()
	path := fmt.Sprintf("root:team-%d", current(t).serial.Add(1))
	must.Do(t, current(t).makeLean(t.Context(), path))
	return p.TenantAt(t, path)
}

// TenantAt makes a tenant of the platform in the workspace of that path.
func (p *Platform) TenantAt(t testing.TB, path string) *Tenant {
	t.Helper()
	tenant := &Tenant{Path: path, platform: p.Path}
	tenant.Bind(t)
	access := must.Get(newUser(t.Context(), current(t).kcp, path, "ipam-pool-admin", "edit"))(t)
	tenant.access = access
	tenant.WithWatch = tenant.In(t, path)
	return tenant
}

// In returns a client of another workspace as the same user, without rights there.
func (tn *Tenant) In(t testing.TB, workspace string) client.WithWatch {
	t.Helper()
	return must.Get(workspaces.NewClient(workspaces.At(tn.access, workspace)))(t)
}

// Bind binds the API again after Unbind.
func (tn *Tenant) Bind(t testing.TB) {
	t.Helper()
	cluster, err := workspaces.EnsureTenant(t.Context(), AdminConfig(t), workspaces.TenantOptions{
		Workspace: tn.Path,
		Platform:  tn.platform,
	})
	if err != nil {
		t.Fatal(err)
	}
	tn.Cluster = cluster
}

// Leave deletes the binding as the owner of the workspace does, and waits until kcp serves the API no more: from then on it
// asks no webhook and no policy of the export.
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

// Unbind takes the API out of the workspace and waits until it is gone with all of
// its objects there.
func (tn *Tenant) Unbind(t testing.TB) {
	t.Helper()
	err := retry.Do(t.Context(), 3*time.Minute, "unbind "+tn.Path, func(ctx context.Context) error {
		return Unbind(ctx, AdminConfig(t), tn.Path)
	})
	if err != nil {
		t.Fatal(err)
	}
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
