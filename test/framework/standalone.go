package framework

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

// NewStandalone returns a platform for this test alone that is a cluster without kcp, as
// far as its controller knows: an ordinary workspace, in which nothing is exported and
// nothing bound. It is a client of somebody with the roles of all people there. Its
// controller does not run yet, and gets these flags.
func NewStandalone(t testing.TB, flags ...string) *Platform {
	t.Helper()
	w := current(t)
	p, err := w.newStandalone(t.Context(), fmt.Sprintf("root:cluster-%d", w.serial.Add(1)), flags)
	if err != nil {
		t.Fatal(err)
	}
	p.endWith(t)
	return p
}

func (w *world) newStandalone(ctx context.Context, path string, flags []string) (*Platform, error) {
	admin, err := w.kcp.Admin()
	if err != nil {
		return nil, err
	}
	cluster, err := workspaces.EnsureWorkspace(ctx, admin, path)
	if err != nil {
		return nil, err
	}
	identity, err := clusterOf(ctx, workspaces.At(admin, path))
	if err != nil {
		return nil, fmt.Errorf("make a cluster of %s: %w", path, err)
	}
	people, err := w.newClient(ctx, path, "ipam-class-admin", "ipam-pool-admin")
	if err != nil {
		return nil, err
	}
	controller, err := local.NewController(ctx, local.ControllerOptions{
		Binary:   w.binary(),
		Dir:      filepath.Join(w.dir, cluster.String()),
		Identity: identity,
		Flags:    flags,
	})
	if err != nil {
		return nil, err
	}
	return &Platform{WithWatch: people, Path: path, Cluster: cluster, controller: controller, identity: identity}, nil
}

// clusterOf makes a workspace the likeness of a cluster, and returns the access of the
// controller: kcp has no namespace kube-system, and lets nobody in who is not named.
func clusterOf(ctx context.Context, cfg *rest.Config) (*rest.Config, error) {
	c, err := workspaces.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	if err := client.IgnoreAlreadyExists(c.Create(ctx, system)); err != nil {
		return nil, err
	}
	if err := workspaces.BootstrapStandalone(ctx, cfg, func(string) {}); err != nil {
		return nil, err
	}
	enter := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "enter"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/"}, Verbs: []string{"access"}}},
	}
	entered := &rbacv1.ClusterRoleBinding{
		ObjectMeta: enter.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: enter.Name},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: workspaces.ControllerNamespace, Name: workspaces.ControllerAccount,
		}},
	}
	for _, object := range []client.Object{enter, entered} {
		if err := c.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	return workspaces.StandaloneConfig(ctx, cfg)
}
