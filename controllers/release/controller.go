package release

import (
	"cmp"
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// Oracle answers whether the holder of a block still exists, and which workspaces are bound.
type Oracle interface {
	Holder(ctx context.Context, h ledger.Holder) (live.Answer, error)
	Lacks(ctx context.Context, h ledger.Holder) (workspace client.Client, ok bool, err error)
	Existed(ctx context.Context, in client.Client, h ledger.Holder, revision string) (existed, known bool, err error)
	Census(ctx context.Context) (c live.Census, ok bool, err error)
}

// Controller settles hints. It is safe for concurrent use.
type Controller struct {
	Options
	backoff  workqueue.TypedRateLimiter[ledger.Holder] // of hints that cannot be settled yet
	promises promise.Keeper

	ranges    rangeKeeper
	retention retention
	censuses
}

// Options configure a Controller. All fields but Hints, Answers, Ranges, Retained, RetireClosed, Dropped, Workers,
// Absence and Clock are required.
type Options struct {
	// Hints are the hints that the Controller settles. Default: new ones.
	*Hints
	Ledger views.Ledger
	// Answers are the CREATEs that this process has answered. Nil: none.
	Answers *promise.Answers
	// Ranges are the pools that claims hold. Nil: no claim holds a pool.
	Ranges Ranges
	Oracle Oracle
	// Bound reports whether the caches show a workspace as bound. If they do not, the Controller asks for the workspace
	// before it asks for an object in it.
	Bound func(ledger.ClusterName) bool
	// Lease returns how long a block whose claim is gone is retained; 0: until its IPAllocation is deleted.
	Lease func(context.Context, ledger.Block) (time.Duration, error)
	// Reclaims returns the policy by which the block of a claim with this reclaimPolicy and this class is reclaimed;
	// empty if nobody knows.
	Reclaims func(ctx context.Context, own ipamv1alpha1.ReclaimPolicy, class string) (ledger.ReclaimPolicy, error)
	// HasAll reports whether the ledger has every pool that an IPAllocation of the workspace may name, and has lost
	// nothing of these pools.
	HasAll func(ctx context.Context, in ledger.ClusterName, record client.Object) (bool, error)
	// Expired is called when a retained block was released because its lease was over. It gets the last IPAllocation of
	// the block.
	Expired func(context.Context, ledger.Holder, *ipamv1alpha1.IPAllocation)
	// Retained is called with a pool when a block of the pool is retained: the IPPool's status shows it. It must not
	// block. Default: a function that does nothing.
	Retained func(ledger.PoolID)
	// RetireClosed retires a range that was closed for the DELETE of its claim, when the claim is gone. Required with
	// Ranges.
	RetireClosed func(ctx context.Context, id ledger.PoolID, by ledger.ClaimID) error
	// Dropped is called when the claim of an open range is gone, and its hold has ended. It must not block. Default: a
	// function that does nothing.
	Dropped func(ledger.PoolID)
	// Workers is how many hints are settled at the same time. Default 32.
	Workers int
	// Absence is the least time between the two censuses that find a workspace unbound, if its binding was seen to go.
	// Otherwise the censuses must be 30 times as far apart. Default 2 s.
	Absence time.Duration
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// New makes a Controller that mgr runs.
func New(mgr manager.Manager, opts Options) (*Controller, error) {
	c := newController(opts)
	options := inbox.Controlled(mgr.GetLogger(), c.queue, cmp.Or(opts.Workers, 32), func(h ledger.Holder) []any {
		return []any{"cluster", h.Cluster, "claim", h.Namespace + "/" + h.Name}
	})
	options.Reconciler = c
	_, err := controller.NewTyped("release", mgr, options)
	return c, err
}

func newController(opts Options) *Controller {
	opts.Absence = cmp.Or(opts.Absence, 2*time.Second)
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	for _, told := range []*func(ledger.PoolID){&opts.Retained, &opts.Dropped} {
		if *told == nil {
			*told = func(ledger.PoolID) {}
		}
	}
	if opts.Hints == nil {
		opts.Hints = NewHints(opts.Clock)
	}
	c := &Controller{
		Options: opts,
		ranges: rangeKeeper{
			ledger: opts.Ranges, pools: opts.Ledger.Pools, retireClosed: opts.RetireClosed, dropped: opts.Dropped,
		},
		retention: retention{ledger: opts.Ledger, lease: opts.Lease, retained: opts.Retained, clock: opts.Clock},
		backoff:   workqueue.NewTypedItemExponentialFailureRateLimiter[ledger.Holder](opts.Absence, time.Minute),
		promises:  promise.Keeper{Ledger: opts.Ledger, Reclaims: opts.Reclaims},
	}
	c.censuses = censuses{options: &c.Options, absences: map[ledger.ClusterName]absence{}}
	return c
}
