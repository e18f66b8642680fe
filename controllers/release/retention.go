package release

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// retention retains blocks whose claims are gone, in the ledger and in their records. Its functions are those of the
// Options.
type retention struct {
	ledger   views.Ledger
	lease    func(context.Context, ledger.Block) (time.Duration, error)
	retained func(ledger.PoolID)
	clock    clock.PassiveClock
}

// until returns the end of the lease of a block that is about to be retained; zero: the lease never ends. The present
// class and pool of the block say how long the lease is. The time is a whole second, because the record can show no
// other.
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

// retain retains the block in the ledger, and removes the claim from the record seen. The transaction that retains the
// block writes the end of the lease, which never changes afterwards. If the record is retained already and the block is
// not, the ledger has lost the end of the lease, and retain takes it from the record. If the record is of a former
// claim, whose block the holder had, it becomes the record of the holder.
func (r *retention) retain(ctx context.Context, s *suspect, seen *ipamv1alpha1.IPAllocation) error {
	until, err := seen.ExpiresAt(), error(nil)
	retained := seen.Spec.ClaimRef == nil && seen.AllocationID() == types.UID(s.Claim)
	if !retained && s.block.State != ledger.Retained {
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
	if retained && seen.ExpiresAt().Equal(until) {
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
