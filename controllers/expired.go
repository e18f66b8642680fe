package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// tellExpired emits an event on an IPAllocation that was released because its lease was over.
func tellExpired(clusters catalog.Clusters, known *directory.Directory) func(context.Context, ledger.Holder, *ipamv1alpha1.IPAllocation) {
	return func(ctx context.Context, h ledger.Holder, last *ipamv1alpha1.IPAllocation) {
		workspace, err := clusters.GetCluster(ctx, known.Engaged(h.Cluster))
		if err != nil {
			log.FromContext(ctx).Info("no event was written that a lease is over: the workspace is not engaged", "error", err.Error())
			return
		}
		workspace.GetEventRecorder("ipam-controller").Eventf(last, nil, corev1.EventTypeNormal, string(ipamv1alpha1.ReasonLeaseExpired),
			"Release", "the lease of the retained block is over; %s was released", last.Status.AllocatedCIDR)
	}
}
