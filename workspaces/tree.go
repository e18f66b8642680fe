package workspaces

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const rootWorkspace = "root"

// EnsureWorkspace makes the workspace at path, and those above it, waits until it
// is ready, and returns its logical cluster.
func EnsureWorkspace(ctx context.Context, cfg *rest.Config, path string) (logicalcluster.Name, error) {
	workspace, err := parsePath(path)
	if err != nil {
		return "", err
	}
	parent, name := workspace.Split()
	if parent.String() != rootWorkspace {
		if _, err := EnsureWorkspace(ctx, cfg, parent.String()); err != nil {
			return "", err
		}
	}
	return ensureChild(ctx, cfg, parent, name)
}

func parsePath(path string) (logicalcluster.Path, error) {
	workspace := logicalcluster.NewPath(path)
	if !workspace.IsValid() || !strings.HasPrefix(path, rootWorkspace+":") {
		return workspace, fmt.Errorf("workspace %q: write a path below root, like root:ipam", path)
	}
	return workspace, nil
}

// Missing returns the workspaces that EnsureWorkspace would create for a path, the topmost
// first. cfg needs to read the workspaces in the parent of each, up to one that exists.
func Missing(ctx context.Context, cfg *rest.Config, path string) ([]string, error) {
	at, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	// A workspace that does not exist, or that refuses the caller, serves no discovery.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"), meta.RESTScopeRoot)
	var missing []string
	for at.String() != rootWorkspace {
		parent, name := at.Split()
		c, err := client.New(At(cfg, parent.String()), client.Options{Scheme: NewScheme(), Mapper: mapper})
		if err != nil {
			return nil, err
		}
		err = c.Get(ctx, client.ObjectKey{Name: name}, &tenancyv1alpha1.Workspace{})
		if err == nil {
			break
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("look for workspace %s: %w", at, err)
		}
		missing = slices.Insert(missing, 0, at.String())
		at = parent
	}
	return missing, nil
}

// ensureChild makes one workspace below a parent that is ready.
func ensureChild(
	ctx context.Context, cfg *rest.Config, parent logicalcluster.Path, name string,
) (logicalcluster.Name, error) {
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
			return fmt.Errorf("its phase is %q%s", ws.Status.Phase, unmet(ws.Status.Conditions))
		}
		cluster = logicalcluster.Name(ws.Spec.Cluster)
		return nil
	})
	return cluster, err
}
