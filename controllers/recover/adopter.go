package recover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

const (
	// retry is the shortest pause after a pass that could not do everything. Each lost pool backs off exponentially, from
	// retry to longest.
	retry, longest = 2 * time.Second, time.Minute
	// leap is added to the published count of changes when a pool resumes after a loss. It exceeds the changes that a
	// ledger can count between two writes of a status. So a copy of the ledger from before the loss always counts fewer
	// changes than the resumed ledger.
	leap = 1 << 20
)

// Record reads the published objects of all workspaces live, not from caches.
type Record interface {
	Each(ctx context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object)) error
	Holder(ctx context.Context, h ledger.Holder) (live.Answer, error)
}

// AdopterOptions configure an Adopter. All fields are required.
type AdopterOptions struct {
	// Ledger is the allocator whose ledger is recovered.
	Ledger *allocator.Allocator
	// Books reads the same ledger.
	Books     Ledger
	Record    Record
	Directory *directory.Directory
	// Clusters has the caches of the workspaces, for IPPools and IPClasses.
	Clusters catalog.Clusters
	// Suspect asks for a check of the holder of a block or range, and for a release if the holder is gone.
	Suspect func(ledger.Holder)
	// Doubt requeues a claim whose block the ledger has for another claim, or lacks together with its pool.
	Doubt func(ledger.Holder)
}

// Adopter reads the published objects, and writes to the ledger the pools and blocks that it has lost. A manager runs
// it, on the leader alone. Safe for concurrent use.
type Adopter struct {
	counts
	clock   clock.PassiveClock
	after   func(time.Duration) <-chan time.Time
	hint    chan struct{}
	missed  live.Absences // workspaces that passes found bound nowhere, though they still have IPAllocations
	unnamed unnamed       // workspaces without a known path; cleared when a pass has done everything; only pass uses it
}

// NewAdopter makes an Adopter.
func NewAdopter(opts AdopterOptions) *Adopter {
	a := &Adopter{
		counts: counts{AdopterOptions: opts, lacks: opts.Ledger.Recovery().Behind, losses: newLosses()},
		clock:  clock.RealClock{}, after: time.After, hint: make(chan struct{}, 1), unnamed: unnamed{},
	}
	a.lists = live.NewRounds(listTime, a.list)
	return a
}

var _ manager.LeaderElectionRunnable = (*Adopter)(nil)

// NeedLeaderElection returns true: only the leader adopts.
func (a *Adopter) NeedLeaderElection() bool { return true }

// Whole reports whether the ledger has every change that a pool's status shows. If not, the pool is frozen in the
// ledger until a pass has adopted what is published.
func (a *Adopter) Whole(ctx context.Context, id ledger.PoolID, shown ipamv1alpha1.IPPoolStatus) (bool, error) {
	misses, err := a.misses(ctx, id, shown)
	if err != nil || !misses {
		return err == nil, err
	}
	if a.losses.ready(id, a.clock.Now()) {
		select {
		case a.hint <- struct{}{}:
		default: // a pass is about to begin
		}
	}
	return false, nil
}

// Named notes that the path of a workspace is known now. It ends the backoff of the lost pools that wait only for this
// path, at most once a minute for each workspace. The next Whole of such a pool begins a pass. Safe for concurrent use.
func (a *Adopter) Named(workspace directory.Workspace) { a.losses.hurry(workspace, a.clock.Now()) }

// Start makes a pass whenever a pool is found lost, until the context ends. After a pass that could not do everything
// it makes another one, with backoff.
func (a *Adopter) Start(ctx context.Context) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.hint:
			if a.losses.wait(a.clock.Now()) > 0 {
				continue // no lost pool is due: a pass came between
			}
		case <-again:
		}
		again = nil
		err := a.pass(ctx)
		if err == nil {
			clear(a.unnamed)
			continue
		}
		if ctx.Err() == nil {
			unfinished.Inc()
			log.FromContext(ctx).Error(err, "the ledger is not whole yet, and its pools stay frozen")
		}
		again = a.after(max(retry, a.losses.wait(a.clock.Now())))
	}
}

// pass adopts the published blocks and pools that the ledger lacks, and resumes the pools that are whole then. A stuck
// pool stays frozen, and pass returns an error for it. Other pools stay frozen with it only if they share its
// addresses. Otherwise a tenant, or one unreadable key, could freeze all of them.
func (a *Adopter) pass(ctx context.Context) error {
	a.unnamed.forget(a.Directory)
	world, err := a.survey(ctx)
	if err != nil {
		return err
	}
	a.losses.forget(func(id ledger.PoolID) bool { return !world.ids[id] }) // their IPPools were deleted
	if len(world.lost) == 0 {
		a.losses.postpone(a.clock.Now())
		return nil
	}
	log.FromContext(ctx).Info("the ledger misses what was published: adopting it", "pools", len(world.lost))
	if err := world.adopt(ctx); err != nil {
		return err
	}
	world.spread()
	a.losses.postpone(a.clock.Now())
	resumed, err := world.resume(ctx)
	log.FromContext(ctx).Info("adopted what was published", "pools", len(world.lost), "resumed", resumed,
		"records", world.adopted)
	return err
}

// resume lets the lost pools that are whole again allocate blocks, and returns their number. The error names the stuck
// pools, except those that were retired, or that wait for the path of their workspace.
func (w *world) resume(ctx context.Context) (resumed int, stuck error) {
	for _, p := range w.lost {
		if p.stuck == nil {
			if err := w.stick(p, w.bringBack(ctx, p)); err != nil {
				return resumed, err
			}
		}
		w.losses.note(p.id, p.stuck)
		switch {
		case errors.Is(p.stuck, errPathless): // another pass begins when the path is known
		case errors.Is(p.stuck, errRetired):
			w.losses.retire(p.id)
		case p.stuck != nil:
			stuck = errors.Join(stuck, fmt.Errorf("pool %s of %s: %w", p.name, p.owner.Cluster, p.stuck))
		default:
			w.losses.forget(func(id ledger.PoolID) bool { return id == p.id })
			resumed++
		}
	}
	return resumed, stuck
}

// bringBack lets a pool allocate blocks again. If the IPPool of an authored pool is being deleted without our
// finalizer, bringBack drains the pool at once, because no controller would retire it.
func (a *Adopter) bringBack(ctx context.Context, p *pool) error {
	err := a.Ledger.Recovery().Resume(ctx, p.id, p.beyond(a.Ledger.Recovery().LedgerID()))
	if err != nil || !p.leaves || p.derived != nil {
		return err
	}
	return a.Ledger.Pools().Drain(ctx, p.id)
}
