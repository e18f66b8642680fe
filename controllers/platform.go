package controllers

import (
	"context"
	"fmt"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/core"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/directory"
)

// StandalonePath is the path of the one workspace that a cluster without kcp is.
const StandalonePath = "local"

// Platform reads which workspace cfg points at, from the export that lives there.
func Platform(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) (directory.Workspace, error) {
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return directory.Workspace{}, err
	}
	export := &apisv1alpha2.APIExport{}
	if err := c.Get(ctx, client.ObjectKey{Name: ipamv1alpha1.GroupName}, export); err != nil {
		return directory.Workspace{}, fmt.Errorf("read APIExport %s (is this the platform workspace, and bootstrapped?): %w", ipamv1alpha1.GroupName, err)
	}
	return directory.Workspace{
		Cluster: allocator.ClusterName(export.Annotations["kcp.io/cluster"]),
		Path:    export.Annotations[core.LogicalClusterPathAnnotationKey],
	}, nil
}

// Standalone reads which cluster without kcp cfg points at. The UID of its namespace
// kube-system stands for the name of a logical cluster: each cluster has another, for
// as long as it lives.
func Standalone(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) (directory.Workspace, error) {
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return directory.Workspace{}, err
	}
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return directory.Workspace{}, fmt.Errorf("read namespace %s, whose UID names the cluster: %w", metav1.NamespaceSystem, err)
	}
	return directory.Workspace{Cluster: allocator.ClusterName(namespace.UID), Path: StandalonePath}, nil
}
