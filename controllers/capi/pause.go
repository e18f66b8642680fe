package capi

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterName returns the name of the Cluster of an IPAddressClaim; empty if it has none. Older providers use the
// label, which is deprecated.
func clusterName(claim *capiv1.IPAddressClaim) string {
	return cmp.Or(claim.Spec.ClusterName, claim.Labels[clusterv1.ClusterNameLabel])
}

// annotated reports whether an object has the annotation that pauses it, with any value.
func annotated(object metav1.Object) bool {
	_, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused
}

// clusterPaused reports whether a Cluster is paused.
func clusterPaused(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Spec.Paused, false) || annotated(cluster)
}

// paused returns why an IPAddressClaim is left alone; empty if it is not. If its Cluster does not exist, the
// IPAddressClaim waits for it. If the IPAddressClaim is being deleted, it does not wait, as the Cluster may have gone
// first.
func (r *Reconciler) paused(ctx context.Context, claim *capiv1.IPAddressClaim) (why string, err error) {
	if annotated(claim) {
		return "the IPAddressClaim is paused", nil
	}
	if why, err := r.Management.clusterHolds(ctx, claim); why != "" || err != nil {
		return why, err
	}
	if !managed(claim.Spec.PoolRef) {
		return "", nil
	}
	pool, err := r.Claims.source(ctx, claim.Spec.PoolRef)
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		return "", nil // the status says so
	}
	if err != nil || !annotated(pool.object) {
		return "", err
	}
	return claim.Spec.PoolRef.Kind + " " + claim.Spec.PoolRef.Name + " is paused", nil
}

// clusterHolds returns why an IPAddressClaim has to wait because of its Cluster; empty if it need not.
func (m Management) clusterHolds(ctx context.Context, claim *capiv1.IPAddressClaim) (why string, err error) {
	name := clusterName(claim)
	if name == "" {
		return "", nil
	}
	cluster := &clusterv1.Cluster{}
	err = m.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: name}, cluster)
	switch {
	case apierrors.IsNotFound(err) && claim.DeletionTimestamp != nil:
		return "", nil
	case apierrors.IsNotFound(err):
		return "Cluster " + name + " does not exist", nil
	case err != nil:
		return "", fmt.Errorf("read Cluster %s: %w", name, err)
	case clusterPaused(cluster):
		return "Cluster " + name + " is paused", nil
	}
	return "", nil
}
