package release

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/reservation"
	"github.com/kcp-ipam/ipam/internal/absent"
)

const (
	// records is the resource of the records.
	records = "ipallocations"
	// settleTimeout limits how long a server that does not answer may occupy a worker.
	settleTimeout = time.Minute
)

// Reconcile settles one hint. While no server can tell whether the holder is gone, it
// requeues the hint with backoff.
func (c *Controller) Reconcile(ctx context.Context, h ledger.Holder) (reconcile.Result, error) {
	number := c.number(h.Claim)
	settled, err := c.settle(ctx, h)
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
	return reconcile.Result{}, nil
}

// again is the time until a hint that is not settled is requeued: a backoff, or for a block that a CREATE
// in flight may show, the time until no such CREATE can succeed.
func (c *Controller) again(ctx context.Context, h ledger.Holder) time.Duration {
	now := c.clock.Now()
	if block, held, err := c.ledger.Lookup(ctx, h.Claim); err == nil && held && reservation.InFlight(block, now) {
		c.backoff.Forget(h)
		return block.BoundAt.Add(reservation.Grace).Sub(now)
	}
	return c.backoff.When(h)
}

// Settle settles a hint at once. It reports false while it cannot be known
// whether the holder is gone.
func (c *Controller) Settle(ctx context.Context, h ledger.Holder) (bool, error) {
	return c.settle(ctx, h)
}

// Alive returns the claim as the servers show it, now. It is nil if the claim is gone, or if that cannot
// be known.
func (c *Controller) Alive(ctx context.Context, h ledger.Holder) (*ipamv1alpha1.IPClaim, error) {
	answer, err := c.oracle.Holder(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("look for claim %s/%s: %w", h.Namespace, h.Name, err)
	}
	claim, ok := answer.Object.(*ipamv1alpha1.IPClaim)
	if !ok || answer.Verdict != live.Alive {
		return nil, nil
	}
	return claim, nil
}

// Gone reports whether the servers say, now, that the holder does not exist. It
// reports false while that cannot be known.
func (c *Controller) Gone(ctx context.Context, h ledger.Holder) (bool, error) {
	answer, err := c.oracle.Holder(ctx, h)
	if err != nil {
		return false, fmt.Errorf("confirm that %s/%s is gone: %w", h.Namespace, h.Name, err)
	}
	return answer.Verdict == live.Gone && !c.outdated(h.Claim, answer.Revision), nil
}

// settle reads the block, then asks for its holder, and then frees the block if it has
// not changed.
func (c *Controller) settle(ctx context.Context, h ledger.Holder) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	suspect, err := c.suspect(ctx, h)
	if err == nil && !suspect.known {
		suspect, err = c.promised(ctx, suspect)
	}
	if err != nil {
		return false, fmt.Errorf("look up what %s/%s has: %w", h.Namespace, h.Name, err)
	}
	h = suspect.Holder
	if !suspect.known && (h.Namespace == "" || c.neverBound(h.Claim)) {
		return true, nil // a bind that commits after this read finds its claim gone, and hints again
	}
	if !c.bound(h.Cluster) {
		if c.unseen(suspect) {
			return true, nil // left to the sweep
		}
		departed, _ := c.departure(h.Cluster)
		absent, err := c.absent(ctx, suspect, departed)
		if errors.Is(err, errUncounted) || err != nil && c.HasDeparted(h.Cluster) {
			return false, unlessUncounted(err)
		}
		if absent {
			return c.free(ctx, suspect, unbound)
		}
	}
	if settled, err := c.confirmByRecord(ctx, suspect); settled || err != nil {
		return settled, err
	}
	return c.confirm(ctx, suspect)
}

// confirm asks the servers for the holder.
func (c *Controller) confirm(ctx context.Context, suspect orphan) (bool, error) {
	asked := c.clock.Now()
	answer, err := c.oracle.Holder(ctx, suspect.Holder)
	if err != nil {
		return false, fmt.Errorf("confirm that %s/%s is gone: %w", suspect.Namespace, suspect.Name, err)
	}
	switch answer.Verdict {
	case live.Alive:
		return true, nil
	case live.Gone:
		if c.outdated(suspect.Claim, answer.Revision) {
			log.FromContext(ctx).Info("the server is older than the object that it does not know; was it restored from a backup?",
				"server", answer.Revision)
			return false, nil
		}
		settled, err := c.reclaim(ctx, suspect, answer)
		if err != nil {
			c.forgetRecord(suspect.Claim) // it may have changed: the next attempt reads it
		}
		return settled, err
	case live.Unbound, live.NoEndpoint:
		if c.unseen(suspect) {
			return true, nil // left to the sweep
		}
		absent, err := c.absent(ctx, suspect, asked)
		if err != nil || !absent {
			return false, unlessUncounted(err)
		}
		return c.free(ctx, suspect, unbound)
	default:
		return false, nil
	}
}

// orphan is a holder that may be gone, and what it had in the ledger before the servers were asked.
type orphan struct {
	ledger.Holder
	known    bool         // it has something
	prefix   netip.Prefix // of what it has
	block    ledger.Block // zero for a root pool
	held     bool         // there is a block
	since    time.Time    // when the ledger got it, by the clock of a replica
	revision int64        // of the ledger, when it last changed
}

// holding is the holder of a block.
func holding(block ledger.Block) orphan {
	return orphan{
		Holder: block.Holder, known: true, prefix: block.Prefix, block: block, held: true, since: block.BoundAt, revision: block.Revision,
	}
}

// suspect looks up what a holder has: a block, or a root pool. It takes the holder's name from the
// ledger. The name of a hint may be that of another object, by which a live holder would seem to be
// gone.
func (c *Controller) suspect(ctx context.Context, h ledger.Holder) (orphan, error) {
	block, held, err := c.ledger.Lookup(ctx, h.Claim)
	if held {
		return holding(block), nil
	}
	if err != nil || h.Namespace != "" {
		return orphan{Holder: h}, err
	}
	pool, revision, known, err := c.ledger.Registered(ctx, ledger.PoolID(h.Claim))
	if err != nil || !known {
		return orphan{Holder: h}, err
	}
	h.Cluster, h.Name = pool.Cluster, pool.Name
	return orphan{Holder: h, known: true, prefix: pool.CIDR, since: pool.RegisteredAt, revision: revision}, nil
}

// predates reports whether the block or pool may be older than an object that was made at that time, by
// kcp's clock, which counts seconds.
func (o orphan) predates(made time.Time) bool {
	return o.known && !made.IsZero() && !o.since.After(made.Add(time.Second))
}

// unlessUncounted is the error; nil for errUncounted, after which the hint is only requeued.
func unlessUncounted(err error) error {
	if errors.Is(err, errUncounted) {
		return nil
	}
	return err
}

// reclaim frees or retains the block of a claim that is gone, with its record, by the reclaim policy.
func (c *Controller) reclaim(ctx context.Context, o orphan, answer live.Answer) (bool, error) {
	if o.Namespace == "" {
		return c.free(ctx, o, poolGone)
	}
	workspace := answer.Client
	o, err := c.told(ctx, o, answer)
	if err != nil {
		return false, err
	}
	record, err := c.record(ctx, o.Holder, workspace)
	if err != nil {
		return false, err
	}
	older, seen := c.wentBefore(o.Holder, answer.Served)
	if record == nil && c.missed(o.Claim) && (!older || !seen) {
		return true, nil // nothing shows that this server ever knew the claim: left to the sweep
	}
	if record == nil {
		err = c.deleteSuperseded(ctx, o, workspace)
	}
	if err != nil {
		return false, err
	}
	heir, err := c.heir(ctx, o, answer)
	if err != nil {
		return false, err
	}
	if record == nil && heir == nil && older {
		return c.free(ctx, o, unbound)
	}
	if record == nil && heir == nil && c.owes(o) {
		return c.recordLate(ctx, o, workspace)
	}
	over := c.over(o)
	if o.held && record != nil && !over && c.retains(o, record) {
		return true, c.retain(ctx, o, record, workspace)
	}
	if over && reservation.InFlight(o.block, c.clock.Now()) {
		return false, nil // a claim may be created whose CREATE was answered with the block
	}
	// The record goes first, so that no free address is still published.
	if record != nil {
		err = deleteRecord(ctx, record, workspace)
	}
	switch {
	case err != nil:
		return false, err
	case heir != nil:
		return c.inherit(ctx, o, heir)
	case over:
		return c.expire(ctx, o, record)
	}
	return c.free(ctx, o, claimGone)
}

// record is the holder's IPAllocation, which names the claim by UID, as its holder or its former one.
// If it was seen when the claim was seen deleted, it is not read: a write names the version that was
// seen. nil: there is none.
func (c *Controller) record(ctx context.Context, h ledger.Holder, workspace client.Client) (*ipamv1alpha1.IPAllocation, error) {
	if seen := c.lastRecord(h.Claim); seen != nil {
		return seen, nil
	}
	for _, name := range ipamv1alpha1.AllocationNames(h.Namespace, h.Name) {
		record := &ipamv1alpha1.IPAllocation{}
		err := workspace.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: name}, record)
		if err != nil && !absent.Object(err, records, name) {
			return nil, fmt.Errorf("read IPAllocation %s/%s: %w", h.Namespace, name, err)
		}
		if _, uid := record.HeldBy(); err == nil && uid == types.UID(h.Claim) {
			return record, nil
		}
	}
	return nil, nil
}

// free frees the block. It reports false if the block has changed since it was read, or while a claim may
// still be created that shows it. A pool that is gone drains first, while others hold blocks of it. It
// stays while its space has lost changes: the ledger may lack some of its blocks.
func (c *Controller) free(ctx context.Context, o orphan, because cause) (bool, error) {
	var err error
	switch {
	case o.Namespace == "":
		err = c.ledger.Drain(ctx, ledger.PoolID(o.Claim))
	case o.held && reservation.InFlight(o.block, c.clock.Now()):
		return false, nil
	case o.held:
		err = c.ledger.ReleaseFor(ctx, o.block, because.recorded)
	default:
		c.ledger.Withdraw(o.Claim)
		return true, nil
	}
	if errors.Is(err, ledger.ErrUnknownPool) {
		return true, nil // it was retired meanwhile, and with a child the child's block
	}
	if _, frozen := errors.AsType[*ledger.FrozenError](err); frozen || errors.Is(err, ledger.ErrChanged) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("release what %s/%s has: %w", o.Namespace, o.Name, err)
	}
	log.FromContext(ctx).Info("released", "prefix", o.prefix, "why", because.why)
	return true, nil
}

// deleteRecord deletes exactly the record that was read.
func deleteRecord(ctx context.Context, record *ipamv1alpha1.IPAllocation, workspace client.Client) error {
	err := workspace.Delete(ctx, record, exactly(record))
	if err != nil && !absent.Object(err, records, record.Name) {
		return fmt.Errorf("delete IPAllocation %s: %w", record.Name, err)
	}
	return nil
}

// exactly is the precondition that a record has not changed since it was read.
func exactly(record *ipamv1alpha1.IPAllocation) client.Preconditions {
	return client.Preconditions{UID: new(record.UID), ResourceVersion: new(record.ResourceVersion)}
}
