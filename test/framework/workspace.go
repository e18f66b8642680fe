package framework

import (
	"context"

	"github.com/kcp-dev/logicalcluster/v3"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/workspaces"
)

// leanType is a type of workspaces that bind no export of kcp's own. To bind those takes kcp two thirds of the work for a
// workspace, and to bind ours next to nothing.
const leanType = "lean"

// place makes a workspace on a shard. Where there are none, it does nothing.
func (w *world) place(ctx context.Context, path, shard string) error {
	if _, ok := w.kcp.(*local.Shards); !ok {
		return nil
	}
	return w.makeWorkspace(ctx, path, tenancyv1alpha1.WorkspaceSpec{Location: &tenancyv1alpha1.WorkspaceLocation{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": shard}},
	}})
}

// makeLean makes a lean workspace below root, which lacks the namespace default, too. Where there are shards, it does nothing.
func (w *world) makeLean(ctx context.Context, path string) error {
	if _, ok := w.kcp.(*local.KCP); !ok {
		return nil
	}
	return w.makeWorkspace(ctx, path, tenancyv1alpha1.WorkspaceSpec{
		Type: &tenancyv1alpha1.WorkspaceTypeReference{Name: leanType, Path: "root"},
	})
}

func (w *world) makeWorkspace(ctx context.Context, path string, spec tenancyv1alpha1.WorkspaceSpec) error {
	parent, name := logicalcluster.NewPath(path).Split()
	workspace := &tenancyv1alpha1.Workspace{Spec: spec}
	workspace.Name = name
	c, err := w.adminOf(parent.String())
	if err != nil {
		return err
	}
	return retry.Do(ctx, Patience, "make workspace "+path, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(c.Create(ctx, workspace.DeepCopy()))
	})
}

// makeLeanType makes the type of the workspaces of makeLean.
func (w *world) makeLeanType(ctx context.Context) error {
	if _, ok := w.kcp.(*local.KCP); !ok {
		return nil
	}
	c, err := w.adminOf("root")
	if err != nil {
		return err
	}
	return retry.Do(ctx, Patience, "make a type of workspaces", func(ctx context.Context) error {
		lean := &tenancyv1alpha1.WorkspaceType{}
		lean.Name = leanType
		return client.IgnoreAlreadyExists(c.Create(ctx, lean))
	})
}

// adminOf returns a client of the admin in a workspace.
func (w *world) adminOf(workspace string) (client.Client, error) {
	admin, err := w.kcp.Admin()
	if err != nil {
		return nil, err
	}
	return workspaces.NewClient(workspaces.At(admin, workspace))
}
