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

// AdopterOptions configure an Adopter. All fields are required.
type AdopterOptions struct {
	// Ledger is made whole again.
	Ledger *allocator.Allocator
	// Books reads the same ledger.
	Books     Ledger
	Record    Record
	Directory *directory.Directory
	// Clusters shows the pools of the workspaces, from the caches.
	Clusters catalog.Clusters
	// Suspect has the holder of a block released if it is gone.
	Suspect func(ledger.Holder)
	// Doubt requeues a claim that shows a block which the ledger has given to another one.
	Doubt func(ledger.Holder)
}

// Adopter reads what is published, and writes to the ledger what that has lost. A manager runs it, on the leader alone.
// Safe for concurrent use.
type Adopter struct {
	counts
	clock   clock.PassiveClock
	after   func(time.Duration) <-chan time.Time
	hint    chan struct{}
	missed  live.Absences // of the workspaces of records
	unnamed unnamed       // in passes until one has done everything; the pass owns it
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

// NeedLeaderElection says that one replica adopts.
func (a *Adopter) NeedLeaderElection() bool { return true }

// Whole reports whether the ledger has all that it had when a pool's status was
// written. If not, the pool is frozen in the ledger until all is adopted again.
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

// Named lets a pass begin at once for the lost pools that wait only for the path of this workspace, which is now known.
// Safe for concurrent use.
func (a *Adopter) Named(workspace directory.Workspace) { a.losses.hurry(workspace, a.clock.Now()) }

// Start adopts whenever something is found to be lost, until the context ends. If a pass could not do everything,
// another one follows.
func (a *Adopter) Start(ctx context.Context) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.hint:
			if a.losses.wait(a.clock.Now()) > 0 {
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
			unfinished.Inc()
			log.FromContext(ctx).Error(err, "the ledger is not whole yet, and its pools stay frozen")
		}
		again = a.after(max(retry, a.losses.wait(a.clock.Now())))
	}
}

// pass takes from the record all that the ledger misses, and resumes what then is whole.
// A pool that is stuck stays frozen, and is an error, but keeps no other frozen that has
// addresses of its own: tenants can bring that about, and so can one key that cannot be read.
func (a *Adopter) pass(ctx context.Context) error {
	a.unnamed.forget(a.Directory)
	world, err := a.survey(ctx)
	if err != nil {
		return err
	}
	a.losses.forget(func(id ledger.PoolID) bool { return !world.ids[id] }) // deleted since
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

// resume lets the lost pools that are whole again allocate blocks, and says how many they
// are, and why others are not.
func (w *world) resume(ctx context.Context) (resumed int, stuck error) {
	for _, p := range w.lost {
		if p.stuck == nil {
			if err := w.stick(p, w.bringBack(ctx, p)); err != nil {
				return resumed, err
			}
		}
		w.losses.note(p.id, p.stuck)
		switch {
		case errors.Is(p.stuck, errPathless): // another pass begins when its workspace is engaged
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

// bringBack lets a pool allocate blocks again. One that leaves only keeps those that it has: nobody retires it
// otherwise, as it does not have our finalizer.
func (a *Adopter) bringBack(ctx context.Context, p *pool) error {
	err := a.Ledger.Recovery().Resume(ctx, p.id, p.beyond(a.Ledger.Recovery().LedgerID()))
	if err != nil || !p.leaves || p.derived != nil {
		return err
	}
	return a.Ledger.Pools().Drain(ctx, p.id)
}
