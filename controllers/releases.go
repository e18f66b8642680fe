package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/derived"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/controllers/release"
)

// addReleases adds the controllers that free blocks whose claims are gone, and that retire derived pools.
func addReleases(
	mgr mcmanager.Manager, classes *catalog.Catalog, reader *live.Reader, hints *release.Hints,
	answers *promise.Answers, adopter *recover.Adopter, opts Options,
) (*release.Controller, *derived.Controller, error) {
	alloc, known, news := opts.Ledger.Allocator, opts.Ledger.directory, opts.Ledger.inbox
	told := derived.NewNews(alloc.Pools())
	keeper := &derived.Keeper{
		Ledger: views.Of(alloc), Ranges: alloc.Derived(), Catalog: classes, Oracle: reader,
		Departed: hints.HasDeparted, Compare: adopter.Compare, Answers: answers, Clock: clock.RealClock{}, Since: time.Now(),
	}
	releases, err := release.New(mgr.GetLocalManager(), release.Options{
		Hints: hints, Ledger: views.Of(alloc), Answers: answers, Ranges: alloc.Derived(), Oracle: reader,
		Bound: opts.Ledger.serves, Lease: catalog.Leases{Catalog: classes, Pools: alloc.Pools()}.Of,
		Reclaims: classes.Reclaims, HasAll: adopter.Complete, Expired: tellExpired(mgr, known),
		Retained:     func(pool ledger.PoolID) { news.Changed(alloc.Pools(), pool) },
		RetireClosed: keeper.RetireClosed, Dropped: told.Dropped,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("release controller: %w", err)
	}
	pools, err := derived.New(mgr.GetLocalManager(), derived.Options{
		Closer: &derived.Closer{Keeper: keeper, Releases: releases, HasAll: adopter.Complete, InOffice: alloc.InOffice},
		News:   told, Idle: opts.DerivedPoolIdle, Bound: opts.Ledger.serves,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("controller of derived pools: %w", err)
	}
	return releases, pools, nil
}

// seer is called for every pool that was created (before is nil), changed, or deleted (after is nil).
type seer func(in ledger.ClusterName, before, after *ipamv1alpha1.IPPool)

// both returns a seer that calls two.
func both(one, other seer) seer {
	return func(in ledger.ClusterName, before, after *ipamv1alpha1.IPPool) {
		one(in, before, after)
		other(in, before, after)
	}
}

// tellExpired emits an event on an IPAllocation that was released because its lease was over.
func tellExpired(
	clusters catalog.Clusters, known *directory.Directory,
) func(context.Context, ledger.Holder, *ipamv1alpha1.IPAllocation) {
	return func(ctx context.Context, h ledger.Holder, last *ipamv1alpha1.IPAllocation) {
		workspace, err := clusters.GetCluster(ctx, known.Engaged(h.Cluster))
		if err != nil {
			log.FromContext(ctx).Info("no event was written that a lease is over: the workspace is not engaged",
				"error", err.Error())
			return
		}
		workspace.GetEventRecorder("ipam-controller").Eventf(last, nil, corev1.EventTypeNormal,
			string(ipamv1alpha1.ReasonLeaseExpired),
			"Release", "the lease of the retained block is over; %s was released", last.Status.AllocatedCIDR)
	}
}
