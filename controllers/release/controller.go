package release

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

// Ledger is what a release needs of the allocator.
type Ledger interface {
	Lookup(ctx context.Context, claim ledger.ClaimID) (ledger.Block, bool, error)
	Retain(ctx context.Context, claim ledger.ClaimID, until time.Time) (ledger.Block, bool, error)
	Reuse(ctx context.Context, b ledger.Block, to allocator.Successor) (ledger.Block, error)
	ReleaseFor(ctx context.Context, b ledger.Block, cause ledger.Cause) error
	Withdraw(claim ledger.ClaimID)
	Drain(ctx context.Context, pool ledger.PoolID) error
	Registered(ctx context.Context, pool ledger.PoolID) (ledger.Pool, int64, bool, error)
	Revision() int64
	Confirm(ctx context.Context, c allocator.Confirmation) (b ledger.Block, ok bool, err error)
	Adopt(ctx context.Context, req ledger.Request, state ledger.BlockState) (ledger.Block, error)
}

// Oracle answers whether the holder of a block still exists, and which workspaces do.
type Oracle interface {
	Holder(ctx context.Context, h ledger.Holder) (live.Answer, error)
	Lacks(ctx context.Context, h ledger.Holder) (workspace client.Client, ok bool, err error)
	Census(ctx context.Context) (c live.Census, ok bool, err error)
}

// Controller settles hints. It is safe for concurrent use.
type Controller struct {
	ledger   Ledger
	oracle   Oracle
	clock    clock.PassiveClock
	queue    workqueue.TypedRateLimitingInterface[ledger.Holder]
	backoff  workqueue.TypedRateLimiter[ledger.Holder] // of hints that cannot be settled yet
	bound    func(ledger.ClusterName) bool
	leases   func(context.Context, ledger.Block) (time.Duration, error)
	expired  func(context.Context, ledger.Holder, *ipamv1alpha1.IPAllocation)
	reclaims func(ctx context.Context, own ipamv1alpha1.ReclaimPolicy, class string) (ledger.ReclaimPolicy, error)
	apart    time.Duration // two censuses that confirm an absence
	maker    record.Maker

	counting sync.Mutex // held while a census is taken

	mu       sync.Mutex
	deleted  map[ledger.ClaimID]deletion // claims and pools that were seen deleted, or are missed
	hints    uint64                      // how many there were at claims and pools that were seen deleted, or are missed
	latest   census
	tried    time.Time // when the latest census began, also if it failed
	absences map[ledger.ClusterName]absence
	departed map[ledger.ClusterName]departure
	pruned   time.Time // when departed was last pruned
}

// Options configure a Controller.
type Options struct {
	Ledger Ledger
	Oracle Oracle
	// Workers that settle hints side by side. Default 32.
	Workers int
	// Bound reports whether a workspace is bound, as far as the caches show it. Where it is not,
	// the workspace is asked for before its objects are. Default: all are bound.
	Bound func(ledger.ClusterName) bool
	// Lease is how long a block whose claim is gone is retained; 0: until its IPAllocation is
	// deleted. Default: 0.
	Lease func(context.Context, ledger.Block) (time.Duration, error)
	// Reclaims is what becomes of the block of a claim that has this reclaimPolicy and class when the
	// claim is deleted; empty if nobody knows. Default: what the claim says, else Delete.
	Reclaims func(ctx context.Context, own ipamv1alpha1.ReclaimPolicy, class string) (ledger.ReclaimPolicy, error)
	// Expired is called when a retained block was released because its lease was over, with its
	// last IPAllocation. Default: no call.
	Expired func(context.Context, ledger.Holder, *ipamv1alpha1.IPAllocation)
	// Absence is how far apart the two censuses must begin that find a workspace
	// unbound. Default 2 s.
	Absence time.Duration
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// New makes a Controller and has mgr run it.
func New(mgr manager.Manager, opts Options) (*Controller, error) {
	c := newController(opts)
	_, err := controller.NewTyped("release", mgr, controller.TypedOptions[ledger.Holder]{
		Reconciler:              c,
		MaxConcurrentReconciles: cmp.Or(opts.Workers, 32),
		NewQueue: func(string, workqueue.TypedRateLimiter[ledger.Holder]) workqueue.TypedRateLimitingInterface[ledger.Holder] {
			return c.queue // made before the manager starts, so that no hint is lost
		},
		LogConstructor: func(h *ledger.Holder) logr.Logger {
			if h == nil {
				return mgr.GetLogger()
			}
			return mgr.GetLogger().WithValues("cluster", h.Cluster, "claim", h.Namespace+"/"+h.Name)
		},
	})
	return c, err
}

func newController(opts Options) *Controller {
	apart := cmp.Or(opts.Absence, 2*time.Second)
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[ledger.Holder](50*time.Millisecond, time.Minute)
	c := &Controller{
		ledger:   opts.Ledger,
		oracle:   opts.Oracle,
		clock:    opts.Clock,
		backoff:  workqueue.NewTypedItemExponentialFailureRateLimiter[ledger.Holder](apart, time.Minute),
		bound:    opts.Bound,
		leases:   opts.Lease,
		expired:  opts.Expired,
		reclaims: opts.Reclaims,
		apart:    apart,
		queue:    workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[ledger.Holder]{Name: "release"}),
		deleted:  map[ledger.ClaimID]deletion{},
		absences: map[ledger.ClusterName]absence{},
		departed: map[ledger.ClusterName]departure{},
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	c.maker.Clock = c.clock
	if c.bound == nil {
		c.bound = func(ledger.ClusterName) bool { return true }
	}
	if c.leases == nil {
		c.leases = func(context.Context, ledger.Block) (time.Duration, error) { return 0, nil }
	}
	if c.reclaims == nil {
		c.reclaims = func(_ context.Context, own ipamv1alpha1.ReclaimPolicy, _ string) (ledger.ReclaimPolicy, error) {
			return cmp.Or(ledger.ReclaimPolicy(own), ledger.Delete), nil
		}
	}
	if c.expired == nil {
		c.expired = func(context.Context, ledger.Holder, *ipamv1alpha1.IPAllocation) {}
	}
	return c
}

// deletion is what was last seen of a claim or pool that is deleted.
type deletion struct {
	number   uint64                     // of the hint
	policy   ipamv1alpha1.ReclaimPolicy // the claim's own; empty when it left that to its class
	revision string
	bound    bool                       // it showed a block
	missed   bool                       // its deletion was not seen
	claim    *ipamv1alpha1.IPClaim      // nil for a pool
	record   *ipamv1alpha1.IPAllocation // nil if none was seen
}

// Deleted hints that a claim was seen being deleted, and how it and its record were last seen.
// record is nil if none was seen.
func (c *Controller) Deleted(h ledger.Holder, last *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) {
	seen := lastSeen(last)
	seen.record = record
	c.hint(h, seen)
}

// Missed hints that a list left out a claim whose deletion was not seen, or that a server does not
// know a claim that the cache shows. Both are true of every newer claim when a kcp was restored from
// a backup. So the claim's block is freed only if the server still has the claim's record, and has
// thus known the claim, or if the workspace's binding was seen to go. Otherwise it is left to the
// sweep, which has a brake.
func (c *Controller) Missed(h ledger.Holder, last *ipamv1alpha1.IPClaim) {
	seen := lastSeen(last)
	seen.missed = true
	c.hint(h, seen)
}

// PoolDeleted hints that a pool was seen being deleted. As a rule the pool controller has removed it
// from the ledger by then. It has not if a user has removed the finalizer.
func (c *Controller) PoolDeleted(h ledger.Holder, last *ipamv1alpha1.IPPool) {
	c.hint(h, deletion{revision: last.ResourceVersion, bound: true})
}

func lastSeen(claim *ipamv1alpha1.IPClaim) deletion {
	return deletion{
		policy:   claim.Spec.ReclaimPolicy,
		revision: claim.ResourceVersion,
		bound:    claim.Status.AllocatedCIDR != "",
		claim:    claim,
	}
}

// hint keeps what was last seen, and queues the hint. A deletion that was seen says more than a claim that is
// missed, in whatever order they come: a write may be answered with a 404 after the deletion was seen.
func (c *Controller) hint(h ledger.Holder, last deletion) {
	c.note(h.Claim, last)
	c.queue.Add(h)
}

func (c *Controller) note(claim ledger.ClaimID, last deletion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.deleted[claim]; ok && last.missed && !before.missed {
		return
	}
	c.hints++
	last.number = c.hints
	c.deleted[claim] = last
}

// number is that of the latest hint at a claim; 0 if nothing is known of its deletion.
func (c *Controller) number(claim ledger.ClaimID) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleted[claim].number
}

// last is the claim as it was last seen, if that was seen deleted, or is missed, and showed a
// block. Else it is nil.
func (c *Controller) last(claim ledger.ClaimID) *ipamv1alpha1.IPClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen := c.deleted[claim]; seen.bound {
		return seen.claim
	}
	return nil
}

// lastRecord is the record of a claim that was seen deleted, as it was last seen; nil if it was not.
func (c *Controller) lastRecord(claim ledger.ClaimID) *ipamv1alpha1.IPAllocation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleted[claim].record.DeepCopy()
}

// forgetRecord forgets the record of a claim that was seen deleted, so that it is read.
func (c *Controller) forgetRecord(claim ledger.ClaimID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen, ok := c.deleted[claim]; ok {
		seen.record = nil
		c.deleted[claim] = seen
	}
}

// missed reports whether the hint at a claim came without its deletion being seen.
func (c *Controller) missed(claim ledger.ClaimID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleted[claim].missed
}

// unseen reports whether a list left out the claim, and no deletion of its workspace's binding was seen.
// In a kcp that was restored from a backup, the newer workspaces are bound nowhere, as if they had left.
// The sweep has a brake for that.
func (c *Controller) unseen(o orphan) bool {
	return c.missed(o.Claim) && !c.HasDeparted(o.Cluster)
}

// Suspect hints that the holder of a block may be gone.
func (c *Controller) Suspect(h ledger.Holder) {
	c.queue.Add(h)
}

// policy is the reclaim policy that counts: that of the last object seen, else the recorded one.
func (c *Controller) policy(block ledger.Block) ipamv1alpha1.ReclaimPolicy {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.deleted[block.Holder.Claim].policy; p != "" {
		return p
	}
	return ipamv1alpha1.ReclaimPolicy(block.Policy)
}

// outdated reports whether a server that found the claim gone is older than the
// claim: it was restored from a backup.
func (c *Controller) outdated(claim ledger.ClaimID, server string) bool {
	c.mu.Lock()
	seen := c.deleted[claim].revision
	c.mu.Unlock()
	if seen == "" || server == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(server, seen)
	return err != nil || order < 0
}

// neverBound reports whether a claim was seen deleted, and not seen bound before.
func (c *Controller) neverBound(claim ledger.ClaimID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, ok := c.deleted[claim]
	return ok && !seen.bound
}

// forget forgets what was last seen of a claim, unless a later hint than that of this number has told more. That one
// is queued.
func (c *Controller) forget(claim ledger.ClaimID, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deleted[claim].number == number {
		delete(c.deleted, claim)
	}
}
