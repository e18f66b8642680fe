package controllers

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/clock"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/controllers/claim"
	"github.com/kcp-ipam/ipam/controllers/class"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/feed"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/controllers/pool"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/controllers/release"
	"github.com/kcp-ipam/ipam/controllers/slice"
	"github.com/kcp-ipam/ipam/controllers/sweep"
	"github.com/kcp-ipam/ipam/internal/build"
)

// leader is the part of the program that one replica runs: it opens the ledger, and runs all that works on it.
type leader struct {
	Options
	mgr        mcmanager.Manager
	tenants    provider
	workspaces *standby
	door       door.Door
	socket     *recover.Server // nil without a socket
}

// NeedLeaderElection says that one replica leads.
func (l *leader) NeedLeaderElection() bool { return true }

// Start leads until the context ends. It fails when this replica cannot use the ledger any more: the process then ends.
func (l *leader) Start(ctx context.Context) error {
	if err := l.Ledger.open(ctx, l.Door.Peer); err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	reader, err := l.newReader(l.Ledger.Recovery().Origin)
	if err != nil {
		return err
	}
	controllers := &assembly{Manager: l.mgr}
	if err := l.addControllers(controllers, reader); err != nil {
		return err
	}
	if err := controllers.run(); err != nil {
		return err
	}
	l.workspaces.lead(ctx)
	select {
	case <-l.Ledger.Failed():
		return l.Ledger.Err()
	case <-ctx.Done():
		return nil
	}
}

// decider decides CREATEs and DELETEs on the leader.
type decider struct {
	door.Answerer
	door.Drainer
	door.Releaser
	door.Closer
	door.Retirer
}

// addControllers adds the controllers that work on the ledger, which is open.
func (l *leader) addControllers(mgr mcmanager.Manager, reader *live.Reader) error {
	tenants, opts := l.tenants, l.Options
	alloc, known, news := opts.Ledger.Allocator, opts.Ledger.directory, opts.Ledger.inbox
	early := bound{manager: mgr, tenants: tenants}
	classes := &catalog.Catalog{Clusters: early, Directory: known, Rooms: alloc.Pools(), Listed: tenants.Listed}
	opts.Ledger.cooldowns.Serve(classes, alloc.Pools())
	hints, doubts := release.NewHints(clock.RealClock{}), claim.NewDoubts(news.Claims, known)
	answers := promise.NewAnswers(clock.RealClock{}, hints.Suspect)
	adopter := recover.NewAdopter(recover.AdopterOptions{
		Ledger: alloc, Books: opts.Verify.Ledger, Record: reader, Directory: known, Clusters: early, Suspect: hints.Suspect,
		Doubt: doubts.Add,
	})
	releases, pooled, err := addReleases(mgr, classes, reader, hints, answers, adopter, opts)
	if err != nil {
		return err
	}
	slices, err := newSlices(mgr, reader, hints, opts)
	if err != nil {
		return err
	}
	workspaces := &feed.Feed{Reengage: tenants.Reengage}
	opts.Claims.Ledger, opts.Claims.Releases, opts.Claims.Ranges = views.Of(alloc), releases, pooled
	opts.Claims.Catalog, opts.Claims.Directory = classes, known
	opts.Claims.Compare, opts.Claims.Complete = adopter.Compare, adopter.Complete
	opts.Claims.Doubts, opts.Claims.Sees, opts.Claims.Answers = doubts, opts.sees, answers
	opts.Claims.Feed, opts.Claims.Queue, opts.Claims.Listed = workspaces, news.Claims, news.Listed
	claims, err := claim.New(mgr, opts.Claims)
	if err != nil {
		return fmt.Errorf("claim controller: %w", err)
	}
	workspaces.Changed = func(name multicluster.ClusterName) {
		slices.Changed(known.Ledger(name)) // the slice of a workspace depends on whether its cache can be read
		claims.Changed(name)
	}
	pools, err := pool.New(mgr, pool.Options{
		Ledger: views.Of(alloc), Catalog: classes, Directory: known, Feed: workspaces, Queue: news.Pools,
		RetireBelow: pooled.RetireBelow, Goes: pooled.Goes, Adoption: adopter, Oracle: reader,
		Seen: both(slices.Seen, pooled.Seen), Deleted: hints.PoolDeleted, MaxPools: opts.Claims.MaxPools, Answers: answers,
	})
	if err != nil {
		return fmt.Errorf("pool controller: %w", err)
	}
	sweeper := newSweeper(mgr, hints, opts)
	l.door.Lead(decider{claims, pools, releases, pooled.Closer, pooled.Closer})
	known.Observe(&watcher{
		adopter: adopter, releases: releases, claims: claims, pools: pools, derived: pooled, slices: slices, sweeper: sweeper,
		logger: opts.Logger.WithName("directory"),
	})
	return errors.Join(
		addClasses(mgr, classes, opts), addVerifier(mgr, l.socket, reader, hints, opts),
		mgr.GetLocalManager().Add(&release.Expiry{Leases: alloc.Retained(), Suspect: hints.Suspect}),
		mgr.GetLocalManager().Add(adopter), mgr.GetLocalManager().Add(sweeper),
		mgr.Add(workspaces),
		mgr.GetLocalManager().Add(answers),
		mgr.GetLocalManager().Add(&unseen{count: answers.Count, names: known, clock: clock.RealClock{}}),
	)
}

func newSlices(
	mgr mcmanager.Manager, reader *live.Reader, hints *release.Hints, opts Options,
) (*slice.Controller, error) {
	alloc, known := opts.Ledger.Allocator, opts.Ledger.directory
	slices, err := slice.New(mgr.GetLocalManager(), slice.Options{
		Catalog:   &catalog.Catalog{Clusters: mgr, Directory: known, Rooms: alloc.Pools()}, // it writes to the workspaces
		Directory: known, Ledger: views.Of(alloc), Oracle: reader, Departed: hints.HasDeparted,
	})
	if err != nil {
		return nil, fmt.Errorf("slice controller: %w", err)
	}
	return slices, nil
}

func newSweeper(mgr mcmanager.Manager, hints *release.Hints, opts Options) *sweep.Sweeper {
	opts.Sweep.Ledger, opts.Sweep.Releases = views.Of(opts.Ledger.Allocator), hints
	opts.Sweep.World = sweep.Caches{Clusters: mgr, Directory: opts.Ledger.directory}
	opts.Sweep.Wake = opts.Ledger.inbox.Wake
	return sweep.New(opts.Sweep)
}

func addClasses(mgr mcmanager.Manager, classes *catalog.Catalog, opts Options) error {
	if err := class.Setup(mgr.GetLocalManager(), class.Options{
		Catalog: classes, Directory: opts.Ledger.directory, Version: build.Version(), Ledger: opts.Ledger.Derived(),
	}); err != nil {
		return fmt.Errorf("class controller: %w", err)
	}
	return nil
}
