package workspaces

import (
	"context"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const rootWorkspace = "root"

// EnsureWorkspace makes the workspace at path, and those above it, waits until it
// is ready, and returns its logical cluster.
func EnsureWorkspace(ctx context.Context, cfg *rest.Config, path string) (logicalcluster.Name, error) {
	workspace := logicalcluster.NewPath(path)
	if !workspace.IsValid() || !strings.HasPrefix(path, rootWorkspace+":") {
		return "", fmt.Errorf("workspace %q: write a path below root, like root:ipam", path)
	}
	parent, name := workspace.Split()
	if parent.String() != rootWorkspace {
		if _, err := EnsureWorkspace(ctx, cfg, parent.String()); err != nil {
			return "", err
		}
	}
	return ensureChild(ctx, cfg, parent, name)
}

// ensureChild makes one workspace below a parent that is ready.
func ensureChild(ctx context.Context, cfg *rest.Config, parent logicalcluster.Path, name string) (logicalcluster.Name, error) {
	c, err := NewClient(At(cfg, parent.String()))
	if err != nil {
		return "", err
	}
	var cluster logicalcluster.Name
	err = await(ctx, fmt.Sprintf("workspace %s to be ready", parent.Join(name)), func(ctx context.Context) error {
		ws := &tenancyv1alpha1.Workspace{}
		ws.Name = name
		err := c.Get(ctx, client.ObjectKeyFromObject(ws), ws)
		if apierrors.IsNotFound(err) {
			err = c.Create(ctx, ws)
		}
		if err != nil {
			return err
		}
		if ws.Status.Phase != corev1alpha1.LogicalClusterPhaseReady {
			return fmt.Errorf("its phase is %q", ws.Status.Phase)
		}
		cluster = logicalcluster.Name(ws.Spec.Cluster)
		return nil
	})
	return cluster, err
}
