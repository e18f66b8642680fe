package framework

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// newUser returns the access to a workspace of a new user. The user can enter it, create namespaces,
// and has the cluster roles, there and nowhere else.
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

// entered waits until the server knows that the user may enter: it learns of a new
// binding a moment after it has stored it, and of an older one no later.
func entered(ctx context.Context, cfg *rest.Config) error {
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	var refused error
	err = wait.PollUntilContextTimeout(ctx, interval, Patience, true, func(ctx context.Context) (bool, error) {
		refused = c.RESTClient().Get().AbsPath("/api").Do(ctx).Error()
		return refused == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for a new user to be let in at %s: %w; last seen: %w", cfg.Host, err, refused)
	}
	return nil
}

// newClient returns a client of a workspace as somebody of newUser.
func newClient(ctx context.Context, g ground, workspace string, roles ...string) (client.WithWatch, error) {
	cfg, err := newUser(ctx, g, workspace, roles...)
	if err != nil {
		return nil, err
	}
	return workspaces.NewClient(cfg)
}

// user returns a client of newClient.
func user(t testing.TB, g ground, workspace string, roles ...string) client.WithWatch {
	t.Helper()
	return must.Get(newClient(t.Context(), g, workspace, roles...))(t)
}
