package scale

import (
	"context"
	"fmt"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/workspaces"
)

func tenantName(i int) string { return fmt.Sprint("scale-team-", i) }

// newTenant makes a workspace that binds the export. It has nothing else that a tenant
// would have, like roles for its people: the controller does not see those.
func (s *stage) newTenant(ctx context.Context, name string) (client.WithWatch, error) {
	root, err := s.client("root")
	if err != nil {
		return nil, err
	}
	ws := &tenancyv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := root.Create(ctx, ws); err != nil {
		return nil, fmt.Errorf("create workspace %s: %w", name, err)
	}
	err = harness.Eventually(ctx, patience, "workspace "+name, func(ctx context.Context) error {
		err := root.Get(ctx, client.ObjectKeyFromObject(ws), ws)
		if err == nil && ws.Status.Phase != corev1alpha1.LogicalClusterPhaseReady {
			err = fmt.Errorf("its phase is %q", ws.Status.Phase)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := s.client(ws.Spec.Cluster)
	if err != nil {
		return nil, err
	}
	return c, s.bind(ctx, c, name)
}

// bind waits until claims can be made. What kcp has just made it may not find at first,
// and it refuses claims until it has read the policies.
func (s *stage) bind(ctx context.Context, c client.Client, name string) error {
	binding := &apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{Name: workspaces.BindingName}}
	binding.Spec.Reference.Export = &apisv1alpha2.ExportBindingReference{Path: platform, Name: workspaces.ExportName}
	binding.Spec.PermissionClaims = s.permissions
	err := harness.Eventually(ctx, patience, "the binding of "+name, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(c.Create(ctx, binding))
	})
	if err != nil {
		return err
	}
	return harness.Eventually(ctx, patience, "the API in "+name, func(ctx context.Context) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
		if err := client.IgnoreAlreadyExists(c.Create(ctx, namespace)); err != nil {
			return err
		}
		return claim(ctx, client.NewDryRunClient(c))
	})
}

// client speaks to a workspace, named by its path or its logical cluster.
func (s *stage) client(workspace string) (client.WithWatch, error) {
	return client.NewWithWatch(workspaces.At(s.Admin, workspace),
		client.Options{Scheme: s.scheme, HTTPClient: s.http, Mapper: s.mapper})
}

// readPermissions reads what the export asks of those who bind it.
func (s *stage) readPermissions(ctx context.Context, c client.Reader) error {
	export := &apisv1alpha2.APIExport{}
	if err := c.Get(ctx, client.ObjectKey{Name: workspaces.ExportName}, export); err != nil {
		return err
	}
	for _, asked := range export.Spec.PermissionClaims {
		s.permissions = append(s.permissions, apisv1alpha2.AcceptablePermissionClaim{
			ScopedPermissionClaim: apisv1alpha2.ScopedPermissionClaim{
				PermissionClaim: asked,
				Selector:        apisv1alpha2.PermissionClaimSelector{MatchAll: true},
			},
			State: apisv1alpha2.ClaimAccepted,
		})
	}
	return nil
}
