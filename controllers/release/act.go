package release

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// records is the resource name of IPAllocations in the API.
const records = "ipallocations"

// cause is why a block is freed: for the log, and as the ledger's history records it.
type cause struct {
	why      string
	recorded ledger.Cause
}

var causes = map[verb]cause{
	free:   {"claim is gone", ledger.CauseReleased},
	expire: {"lease is over", ledger.CauseLeaseExpired},
	vacate: {"workspace is unbound", ledger.CauseWorkspaceGone},
}

// createFailed is the cause if nobody can have seen a claim with the block.
var createFailed = cause{"its CREATE has failed", ledger.CauseCreateFailed}

// act does what the table says. It reports false if the hint has to be settled again.
func (c *Controller) act(ctx context.Context, s *suspect, f facts) (settled bool, err error) {
	do := decide(f)
	if do.drop {
		if err := deleteRecord(ctx, s.slot.Record, s.workspace); err != nil {
			return false, err
		}
	}
	switch do.then {
	case leave:
		// a request must not count a holder that may be gone as settled
		settled = f.verdict == alive || s.origin == hinted || !s.known
	case withdraw:
		c.Ledger.Waits.Withdraw(s.Claim)
		settled = true
	case drain:
		settled, err = freed(ctx, s, "pool is gone", c.Ledger.Pools.Drain(ctx, ledger.PoolID(s.Claim)))
	case retain:
		settled, err = true, c.retention.retain(ctx, s, s.slot.Record)
	case unhold:
		settled, err = c.ranges.unhold(ctx, s)
	case free, vacate, expire:
		settled, err = c.free(ctx, s, causes[do.then])
		if s.workspace == nil && c.seen(s.Claim).missed {
			settled = false // by censuses: the next attempt looks for the record that may have brought the hint
		}
	case wait:
	}
	if do == (action{drop: true, then: expire}) && settled {
		expirations.Inc()
		c.Expired(ctx, s.Holder, s.slot.Record)
	}
	return settled, err
}

// free frees the block, if it has not changed since it was read.
func (c *Controller) free(ctx context.Context, s *suspect, because cause) (bool, error) {
	if untold, _ := c.Answers.Untold(s.Holder); untold && c.seen(s.Claim).claim == nil {
		because = createFailed
	}
	return freed(ctx, s, because.why, c.Ledger.Blocks.ReleaseFor(ctx, s.block, because.recorded))
}

// freed turns the error of a release into a result. It reports true if the block or pool was released, and false if
// another attempt is needed: the block has changed since it was read, or the space of the pool has lost changes, so
// that the ledger may lack blocks of the pool.
func freed(ctx context.Context, s *suspect, why string, err error) (bool, error) {
	if errors.Is(err, ledger.ErrUnknownPool) {
		return true, nil // the pool was retired meanwhile; the block of a child pool goes with the pool
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

// deleteRecord deletes exactly the record that was read.
func deleteRecord(ctx context.Context, record *ipamv1alpha1.IPAllocation, workspace client.Client) error {
	err := workspace.Delete(ctx, record, exactly(record))
	if err != nil && !absent.Object(err, records, record.Name) {
		return fmt.Errorf("delete IPAllocation %s: %w", record.Name, err)
	}
	return nil
}

// exactly returns the precondition that the record has not changed since it was read.
func exactly(record *ipamv1alpha1.IPAllocation) client.Preconditions {
	return client.Preconditions{UID: new(record.UID), ResourceVersion: new(record.ResourceVersion)}
}

var expirations = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "ipam_release_expired_total",
	Help: "Retained blocks that were released because their lease was over.",
})

func init() { metrics.Registry.MustRegister(expirations) }
