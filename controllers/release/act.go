package release

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// records is the resource of the records.
const records = "ipallocations"

// cause is why a block is freed: for the log, and as the ledger's history records it.
type cause struct {
	why      string
	recorded ledger.Cause
}

var (
	causes = map[verb]cause{
		free:      {"claim is gone", ledger.CauseReleased},
		expire:    {"lease is over", ledger.CauseLeaseExpired},
		vacate:    {"workspace is unbound", ledger.CauseWorkspaceGone},
		supersede: {"another claim has the block", ledger.CauseSuperseded},
	}
	namespaceGone = cause{"namespace is gone", ledger.CauseReleased}
)

// act does what the table says. It reports false if the hint is to be settled again.
func (c *Controller) act(ctx context.Context, s *suspect, f facts) (settled bool, err error) {
	do := decide(f)
	if do.drop {
		if err := deleteRecord(ctx, s.slot.Record, s.workspace); err != nil {
			return false, err
		}
	}
	switch do.then {
	case leave:
		settled = true
	case withdraw:
		c.Ledger.Waits.Withdraw(s.Claim)
		settled = true
	case drain:
		settled, err = freed(ctx, s, "pool is gone", c.Ledger.Pools.Drain(ctx, ledger.PoolID(s.Claim)))
	case retain:
		settled, err = true, c.retain(ctx, s, s.slot.Record)
	case write:
		settled, err = c.writeRecord(ctx, s)
	case unhold:
		settled, err = c.unhold(ctx, s)
	case give:
		settled, err = c.give(ctx, s)
	case free, supersede, vacate, expire:
		settled, err = c.free(ctx, s, causes[do.then])
	case wait:
	}
	if do == (action{drop: true, then: expire}) && settled {
		expirations.Inc()
		c.Expired(ctx, s.Holder, s.slot.Record)
	}
	return settled, err
}

// free frees the block, if it is as it was read.
func (c *Controller) free(ctx context.Context, s *suspect, because cause) (bool, error) {
	return freed(ctx, s, because.why, c.Ledger.Blocks.ReleaseFor(ctx, s.block, because.recorded))
}

// freed reports whether what a holder has was released. It was not if the block has changed since it was read. A pool
// stays while its space has lost changes: the ledger may lack some of its blocks.
func freed(ctx context.Context, s *suspect, why string, err error) (bool, error) {
	if errors.Is(err, ledger.ErrUnknownPool) {
		return true, nil // it was retired meanwhile, and with a child the child's block
	}
	if _, frozen := errors.AsType[*ledger.FrozenError](err); frozen || errors.Is(err, ledger.ErrChanged) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("release what %s/%s has: %w", s.Namespace, s.Name, err)
	}
	log.FromContext(ctx).Info("released", "prefix", s.prefix, "why", why)
	return true, nil
}

// give gives the block to the later claim of the name, which shows it.
func (c *Controller) give(ctx context.Context, s *suspect) (bool, error) {
	if s.ranged != "" {
		return c.hand(ctx, s)
	}
	_, err := c.promises.Give(ctx, s.block, s.later)
	if errors.Is(err, ledger.ErrChanged) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("give %s to %s/%s: %w", s.prefix, s.Namespace, s.Name, err)
	}
	log.FromContext(ctx).Info("given to a later claim of the name", "prefix", s.prefix)
	return true, nil
}

// until returns when the lease ends of a block that is retained now, by its class and pool as they are
// now; zero if it has none. It is a whole second, as the record can show no other.
func (c *Controller) until(ctx context.Context, s *suspect) (time.Time, error) {
	lease, err := c.Lease(ctx, s.block)
	if err != nil {
		return time.Time{}, fmt.Errorf("look up the lease of %s/%s: %w", s.Namespace, s.Name, err)
	}
	if lease <= 0 {
		return time.Time{}, nil
	}
	return c.Clock.Now().UTC().Add(lease + time.Second - time.Nanosecond).Truncate(time.Second), nil
}

// retain keeps the block, and removes the claim from its record. The transaction that retains the block
// writes the end of the lease, which does not change from then on. If only the record is retained, the
// ledger has lost the end, and takes it from the record.
func (c *Controller) retain(ctx context.Context, s *suspect, seen *ipamv1alpha1.IPAllocation) error {
	until, err := seen.ExpiresAt(), error(nil)
	if seen.Spec.ClaimRef != nil && s.block.State != ledger.Retained {
		until, err = c.until(ctx, s)
	}
	if err != nil {
		return err
	}
	block, held, err := c.Ledger.Retained.Retain(ctx, s.Claim, until)
	if err != nil {
		return fmt.Errorf("retain the block of %s/%s: %w", s.Namespace, s.Name, err)
	}
	if held {
		until = block.Until
		c.Retained(block.Pool)
	}
	if seen.Spec.ClaimRef == nil && seen.ExpiresAt().Equal(until) {
		return nil
	}
	before := patch.Snapshot(seen)
	record.Retain(seen, s.Name, s.Claim, until)
	outcome.Observe(seen.Status.Conditions, seen.Generation+1)
	if err := before.PatchWhole(ctx, s.workspace, seen); err != nil {
		return fmt.Errorf("retain IPAllocation %s: %w", seen.Name, err)
	}
	log.FromContext(ctx).Info("retained", "prefix", seen.Status.AllocatedCIDR, "until", seen.Status.Expires)
	return nil
}

// writeRecord writes the record of a claim that went before its reconcile, as a retained one, and retains the block.
func (c *Controller) writeRecord(ctx context.Context, s *suspect) (bool, error) {
	until, err := c.until(ctx, s)
	if err != nil {
		return false, err
	}
	// Where several replicas work at once, another may have retained the block meanwhile, and the record
	// may have been deleted since. To create it again would keep for ever a block that its owner has released.
	now, held, err := c.Ledger.Blocks.Lookup(ctx, s.Claim)
	if err != nil || !held || now.Revision != s.block.Revision {
		return false, err
	}
	pool, _, _, err := c.Ledger.Pools.Read(ctx, s.block.Pool)
	if err != nil {
		return false, fmt.Errorf("look up the pool of %s/%s: %w", s.Namespace, s.Name, err)
	}
	last := c.seen(s.Claim).claim
	late := record.New(last, s.block, record.Place{Name: s.slot.Name, Pool: *last.Status.PoolRef, Scope: record.Scope(pool)})
	record.Retain(late, s.Name, s.Claim, until)
	err = c.maker.Create(ctx, s.workspace, s.Cluster, late)
	if apierrors.IsAlreadyExists(err) {
		return false, nil // the reconcile wrote it after all, and it is found next time
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || absent.Object(err, "namespaces", s.Namespace) {
		return c.free(ctx, s, namespaceGone) // and would take the record along
	}
	if err != nil {
		return false, fmt.Errorf("create IPAllocation %s: %w", late.Name, err)
	}
	return true, c.retain(ctx, s, late)
}

// deleteRecord deletes exactly the record that was read.
func deleteRecord(ctx context.Context, record *ipamv1alpha1.IPAllocation, workspace client.Client) error {
	err := workspace.Delete(ctx, record, exactly(record))
	if err != nil && !absent.Object(err, records, record.Name) {
		return fmt.Errorf("delete IPAllocation %s: %w", record.Name, err)
	}
	return nil
}

// exactly returns the precondition that a record has not changed since it was read.
func exactly(record *ipamv1alpha1.IPAllocation) client.Preconditions {
	return client.Preconditions{UID: new(record.UID), ResourceVersion: new(record.ResourceVersion)}
}

var expirations = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "ipam_release_expired_total",
	Help: "Retained blocks that were released because their lease was over.",
})

func init() { metrics.Registry.MustRegister(expirations) }
