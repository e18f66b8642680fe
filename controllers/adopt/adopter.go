package adopt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
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
	// retry is the first pause after a pass that could not do everything, and longest the last one.
	retry, longest = 2 * time.Second, time.Minute
	// leap is how far the count of changes goes on after a loss. It is more than
	// what can be given out between two writes of a status, so that copies from
	// before the loss stay behind whatever is counted after it.
	leap = 1 << 20
)

// Record is the published record, read past every cache.
type Record interface {
	Each(ctx context.Context, list client.ObjectList, visit func(ledger.ClusterName, client.Object)) error
	Holder(ctx context.Context, h ledger.Holder) (live.Answer, error)
}

// Options configure an Adopter. All fields are required.
type Options struct {
	// Ledger is made whole again.
	Ledger    *allocator.Allocator
	Record    Record
	Directory *directory.Directory
	// Clusters shows the pools of the workspaces, from the caches.
	Clusters catalog.Clusters
	// Suspect has the holder of a block released if it is gone.
	Suspect func(ledger.Holder)
	// Doubt requeues a claim, to compare it with the ledger, which disputes its block.
	Doubt func(ledger.Holder)
}

// Adopter takes what the ledger has lost from the published record. A manager runs
// it, on the leader alone. Safe for concurrent use.
type Adopter struct {
	Options
	clock  clock.PassiveClock
	after  func(time.Duration) <-chan time.Time
	hint   chan struct{}
	tries  workqueue.TypedRateLimiter[ledger.PoolID]                                // passes that have left a pool frozen
	lacks  func(ctx context.Context, id ledger.PoolID, changes int64) (bool, error) // asks the ledger
	missed live.Absences                                                            // of the workspaces of records
	// unnamed are the workspaces of claims without a record whose path was not known, and since when, in passes until one has done
	// everything. The pass owns it.
	unnamed map[ledger.ClusterName]time.Time

	mu      sync.Mutex
	lost    map[ledger.PoolID]time.Time // until they are whole again; when the next pass may begin for each
	retired map[ledger.PoolID]bool      // those that a pass has found to be retired before the loss
}

// New makes an Adopter.
func New(opts Options) *Adopter {
	return &Adopter{
		Options: opts, clock: clock.RealClock{}, after: time.After, hint: make(chan struct{}, 1), lacks: opts.Ledger.Recovery().Behind,
		tries:   workqueue.NewTypedItemExponentialFailureRateLimiter[ledger.PoolID](retry, longest),
		unnamed: map[ledger.ClusterName]time.Time{}, lost: map[ledger.PoolID]time.Time{}, retired: map[ledger.PoolID]bool{},
	}
}

var _ manager.LeaderElectionRunnable = (*Adopter)(nil)

// NeedLeaderElection says that one replica adopts.
func (a *Adopter) NeedLeaderElection() bool { return true }

// Whole reports whether the ledger has all that it had when a pool's status was
// written. If not, the pool is frozen in the ledger until all is adopted again.
func (a *Adopter) Whole(ctx context.Context, id ledger.PoolID, shown ipamv1alpha1.IPPoolStatus) (bool, error) {
	misses, err := a.misses(ctx, id, shown)
	if err != nil || !misses {
		return err == nil, err
	}
	if a.wait(id) <= 0 {
		select {
		case a.hint <- struct{}{}:
		default: // a pass is about to begin
		}
	}
	return false, nil
}

// misses compares the ledger with what a pool's status says of it. A pool that was
// found lost stays so until it is whole again, whatever of it is in the ledger by then.
// That is written in the ledger: another process, or another replica, goes on from there.
func (a *Adopter) misses(ctx context.Context, id ledger.PoolID, status ipamv1alpha1.IPPoolStatus) (bool, error) {
	pool, known := a.Ledger.Pools().Get(id)
	if known && pool.Frozen {
		a.lose(id)
	}
	if a.isLost(id) || status.AllocatedCIDR == "" {
		return a.isLost(id), nil
	}
	if known && !a.Ledger.Recovery().Frozen(id) || a.wasRetired(id) {
		return false, nil
	}
	behind, err := a.behind(ctx, id, status)
	if err != nil || !behind {
		return false, err
	}
	// The record shows a pool until its finalizer is off, and caches show it longer. It may have been retired
	// since it was found in memory, so this is asked last.
	if retired, err := a.Ledger.Pools().Retired(ctx, id); err != nil || retired {
		return false, err
	}
	// A derived pool that was made again meanwhile has the ID of the former one, which the status may speak of.
	now, there := a.Ledger.Pools().Get(id)
	again := there != known || !now.RegisteredAt.Equal(pool.RegisteredAt)
	if !again {
		err = a.Ledger.Recovery().Freeze(ctx, id, pool.RegisteredAt)
		again = errors.Is(err, ledger.ErrChanged)
	}
	if again {
		return a.misses(ctx, id, status)
	}
	a.lose(id)
	return true, err
}

// behind reports whether the ledger lacks changes that a pool's status speaks of, or is another
// one. It changes nothing.
func (a *Adopter) behind(ctx context.Context, id ledger.PoolID, status ipamv1alpha1.IPPoolStatus) (bool, error) {
	had := status.Ledger
	if had == nil { // written by a version that did not count
		had = &ipamv1alpha1.PoolLedger{ID: a.Ledger.Recovery().LedgerID()}
	}
	changes := had.Changes
	if p, ok := a.Ledger.Pools().Get(id); ok {
		changes -= catalog.Changes(p, 0)
	}
	behind, err := a.lacks(ctx, id, changes)
	return behind || had.ID != a.Ledger.Recovery().LedgerID(), err
}

// Start adopts whenever something is found to be lost, until the context ends. If a pass could not do everything, another one follows.
func (a *Adopter) Start(ctx context.Context) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.hint:
			if a.wait(a.losses()...) > 0 {
				continue // a pass has begun since
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
			failures.Inc()
			log.FromContext(ctx).Error(err, "the ledger is not whole yet, and its pools stay frozen")
		}
		again = a.after(max(retry, a.wait(a.losses()...)))
	}
}

// pass takes from the record all that the ledger misses, and resumes what then is whole.
// A pool that is stuck stays frozen, and is an error, but keeps no other frozen that has
// addresses of its own: tenants can bring that about, and so can one key that cannot be read.
func (a *Adopter) pass(ctx context.Context) error {
	world, err := a.survey(ctx)
	if err != nil {
		return err
	}
	a.forget(func(id ledger.PoolID) bool { return !world.ids[id] }) // deleted since
	if len(world.lost) == 0 {
		a.postpone()
		return nil
	}
	log.FromContext(ctx).Info("the ledger misses what was published: adopting it", "pools", len(world.lost))
	if err := world.enter(ctx); err != nil {
		return err
	}
	adopted, err := world.adopt(ctx)
	if err != nil {
		return err
	}
	world.spread()
	a.postpone()
	resumed, err := world.resume(ctx)
	log.FromContext(ctx).Info("adopted what was published", "pools", len(world.lost), "resumed", resumed, "records", adopted)
	return err
}

// resume lets the lost pools that are whole again allocate blocks, and says how many they
// are, and why others are not.
func (w *world) resume(ctx context.Context) (resumed int, stuck error) {
	for _, p := range w.lost {
		if p.stuck == nil {
			if err := w.stick(p, w.bringBack(ctx, p)); err != nil {
				return resumed, err
			}
		}
		switch {
		case errors.Is(p.stuck, errPathless): // another pass begins when its workspace is engaged
		case errors.Is(p.stuck, errRetired):
			w.retire(p.id)
		case p.stuck != nil:
			stuck = errors.Join(stuck, fmt.Errorf("pool %s of %s: %w", p.name, p.owner.Cluster, p.stuck))
		default:
			w.forget(func(id ledger.PoolID) bool { return id == p.id })
			resumed++
		}
	}
	return resumed, stuck
}

// bringBack lets a pool allocate blocks again. One that leaves only keeps those that it has: nobody retires it otherwise, as it does not
// have our finalizer.
func (w *world) bringBack(ctx context.Context, p *pool) error {
	err := w.Ledger.Recovery().Resume(ctx, p.id, p.beyond(w.Ledger.Recovery().LedgerID()))
	if err != nil || !p.leaves || p.derived != nil {
		return err
	}
	return w.Ledger.Pools().Drain(ctx, p.id)
}
