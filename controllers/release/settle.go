package release

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

// settleTimeout limits how long a server that does not answer may occupy a worker.
const settleTimeout = time.Minute

// Reconcile settles one hint. A hint that cannot be settled yet is requeued after the time that again returns.
func (c *Controller) Reconcile(ctx context.Context, h ledger.Holder) (reconcile.Result, error) {
	number := c.seen(h.Claim).number
	settled, err := c.Settle(ctx, h)
	if barred, ok := errors.AsType[*record.BarredError](err); ok {
		return reconcile.Result{RequeueAfter: barred.After}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if !settled {
		return reconcile.Result{RequeueAfter: c.again(ctx, h)}, nil
	}
	c.backoff.Forget(h)
	c.forget(h.Claim, number)
	if c.Answers.Unrecorded(h) {
		return reconcile.Result{}, c.noteFreed(ctx, h)
	}
	return reconcile.Result{}, nil
}

// noteFreed notes in Answers that the block of a CREATE is free, if the ledger has nothing of the holder any more.
func (c *Controller) noteFreed(ctx context.Context, h ledger.Holder) error {
	s, err := c.suspect(ctx, h)
	if err == nil && !s.known {
		c.Answers.Freed(h)
	}
	return err
}

// again returns the time until an unsettled hint is requeued. If a CREATE in flight may show the block, it is the time
// until that CREATE can no longer succeed. If one census lacks the workspace, it is the time until a second census
// counts. Otherwise it is a backoff.
func (c *Controller) again(ctx context.Context, h ledger.Holder) time.Duration {
	now := c.Clock.Now()
	if block, held, err := c.Ledger.Blocks.Lookup(ctx, h.Claim); err == nil && held && block.State == ledger.Bound &&
		promise.Young(block, now) && c.seen(h.Claim).claim == nil {
		c.backoff.Forget(h)
		return block.BoundAt.Add(promise.Grace).Sub(now)
	}
	if wait := c.wait(h.Cluster); wait > 0 {
		return wait
	}
	return c.backoff.When(h)
}

// Settle settles a hint at once: it reads the facts about the holder, and does what the table says. It reports false if
// the hint has to be settled again: nobody can tell now whether the holder is gone, somebody may still show the block,
// or the block has changed meanwhile.
func (c *Controller) Settle(ctx context.Context, h ledger.Holder) (bool, error) {
	return c.settle(ctx, h, hinted)
}

// SettleWitnessed settles the release of a holder that a request asks about: for example, of a claim inside a range
// that is deleted. Users send such requests, as many as they like, and no brake counts what they free. So
// SettleWitnessed frees a block only if the deletion of its claim was seen, if the claim's IPAllocation is still there
// and was not stored too late, or if the binding of its workspace was seen to go. It reports false for any other holder
// that seems to be gone: a kcp that was restored from a backup has never known the claims that are newer than the
// backup.
func (c *Controller) SettleWitnessed(ctx context.Context, h ledger.Holder) (bool, error) {
	return c.settle(ctx, h, requested)
}

// origin says what asks to settle a release.
type origin int

const (
	hinted    origin = iota // an event, the sweep, or an object that shows that the claim was known
	requested               // a request about another object, such as the range around the claim
)

func (c *Controller) settle(ctx context.Context, h ledger.Holder, from origin) (bool, error) {
	if ledger.Digest(ledger.PoolID(h.Claim)) != "" {
		return true, nil // a derived pool or an address space: the ledger alone says when it goes
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	s, err := c.suspect(ctx, h)
	if err != nil {
		return false, fmt.Errorf("look up what %s/%s has: %w", h.Namespace, h.Name, err)
	}
	s.origin = from
	if seen := c.seen(s.Claim); !s.known && (s.Namespace == "" || seen.number > 0 && !seen.bound) {
		return true, nil // a bind that commits after this read finds its claim gone, and hints again
	}
	f, err := c.read(ctx, s)
	if errors.Is(err, errUncounted) {
		return false, nil
	}
	settled := false
	if err == nil {
		settled, err = c.act(ctx, s, f)
	}
	if err != nil {
		c.forgetRecord(s.Claim) // the record may have changed: the next attempt reads it
	}
	return settled, err
}

// suspect is a holder that may be gone, and the facts about it.
type suspect struct {
	ledger.Holder
	origin   origin
	known    bool          // the ledger has a block, a root pool or a range of it
	prefix   netip.Prefix  // of that block, pool or range
	block    ledger.Block  // zero for a root pool
	held     bool          // it has a block
	ranged   ledger.PoolID // the range that it holds; empty: none
	closed   bool          // its range was closed for the DELETE of the claim
	since    time.Time     // when it got the block, pool or range, by the clock of a replica
	revision int64         // of the ledger, at the last change of the block, pool or range

	// when kcp bound the present binding of the workspace; zero unless a server says that the claim is gone
	served time.Time
	// a client of the server that says that the claim is gone; nil: none was asked, or none says so
	workspace client.Client
	slot      record.Slot           // of the claim's record, as that server shows it
	later     *ipamv1alpha1.IPClaim // the claim that has the holder's name there; nil: none
}

// holds notes the holder's block. It takes the holder's name from the ledger, too. A hint may have the name of another
// object, and a server that lacks that object would seem to say that the holder is gone.
func (s *suspect) holds(b ledger.Block) {
	s.Holder, s.known, s.prefix = b.Holder, true, b.Prefix
	s.block, s.held, s.since, s.revision = b, true, b.BoundAt, b.Revision
}

// predates reports whether the block or pool may be older than an object that kcp has made at this time. kcp's times
// are whole seconds.
func (s *suspect) predates(made time.Time) bool {
	return s.known && !made.IsZero() && !s.since.After(made.Add(time.Second))
}

// suspect looks up what a holder has: a block, a root pool, or a range.
func (c *Controller) suspect(ctx context.Context, h ledger.Holder) (*suspect, error) {
	s := &suspect{Holder: h}
	if ranged, err := c.ranges.find(ctx, s); ranged || err != nil {
		return s, err
	}
	block, held, err := c.Ledger.Blocks.Lookup(ctx, h.Claim)
	if h.Namespace == "" && !held && err == nil {
		return s, c.findPool(ctx, s)
	}
	if err == nil && held {
		s.holds(block)
	}
	return s, err
}

// findPool notes the holder's root pool, if the ledger has it.
func (c *Controller) findPool(ctx context.Context, s *suspect) error {
	pool, revision, known, err := c.Ledger.Pools.Read(ctx, ledger.PoolID(s.Claim))
	if err == nil && known {
		s.Cluster, s.Name = pool.Cluster, pool.Name
		s.known, s.prefix, s.since, s.revision = true, pool.CIDR, pool.RegisteredAt, revision
	}
	return err
}
