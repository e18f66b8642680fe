package release

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// retention keeps blocks without their claims, in the ledger and in their records. Its functions are those of the
// Options.
type retention struct {
	ledger   views.Ledger
	lease    func(context.Context, ledger.Block) (time.Duration, error)
	retained func(ledger.PoolID)
	clock    clock.PassiveClock
}

// until returns when the lease ends of a block that is retained now, by its class and pool as they are
// now; zero if it has none. It is a whole second, as the record can show no other.
func (r *retention) until(ctx context.Context, s *suspect) (time.Time, error) {
	lease, err := r.lease(ctx, s.block)
	if err != nil {
		return time.Time{}, fmt.Errorf("look up the lease of %s/%s: %w", s.Namespace, s.Name, err)
	}
	if lease <= 0 {
		return time.Time{}, nil
	}
	return r.clock.Now().UTC().Add(lease + time.Second - time.Nanosecond).Truncate(time.Second), nil
}

// retain keeps the block, and removes the claim from its record. The transaction that retains the block
// writes the end of the lease, which does not change from then on. If only the record is retained, the
// ledger has lost the end, and takes it from the record.
func (r *retention) retain(ctx context.Context, s *suspect, seen *ipamv1alpha1.IPAllocation) error {
	until, err := seen.ExpiresAt(), error(nil)
	if seen.Spec.ClaimRef != nil && s.block.State != ledger.Retained {
		until, err = r.until(ctx, s)
	}
	if err != nil {
		return err
	}
	block, held, err := r.ledger.Retained.Retain(ctx, s.Claim, until)
	if err != nil {
		return fmt.Errorf("retain the block of %s/%s: %w", s.Namespace, s.Name, err)
	}
	if held {
		until = block.Until
		r.retained(block.Pool)
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

// late returns the record that the claim did not get, as a retained one; nil if the block has changed since it was read.
func (r *retention) late(ctx context.Context, s *suspect) (*ipamv1alpha1.IPAllocation, error) {
	until, err := r.until(ctx, s)
	if err != nil {
		return nil, err
	}
	// Where several replicas work at once, another may have retained the block meanwhile, and the record
	// may have been deleted since. To create it again would keep for ever a block that its owner has released.
	now, held, err := r.ledger.Blocks.Lookup(ctx, s.Claim)
	if err != nil || !held || now.Revision != s.block.Revision {
		return nil, err
	}
	pool, _, _, err := r.ledger.Pools.Read(ctx, s.block.Pool)
	if err != nil {
		return nil, fmt.Errorf("look up the pool of %s/%s: %w", s.Namespace, s.Name, err)
	}
	late := record.New(s.last, s.block, record.Place{Name: s.slot.Name, Pool: *s.last.Status.PoolRef, Scope: record.Scope(pool)})
	record.Retain(late, s.Name, s.Claim, until)
	return late, nil
}
