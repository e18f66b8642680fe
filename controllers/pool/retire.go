package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// retire takes a deleted pool out of the ledger. While it is in use it stays.
func (p *pass) retire(ctx context.Context) error {
	p.waiting.leave(p.request)
	p.ledger.Withdraw(ledger.ClaimID(p.id))
	if !controllerutil.ContainsFinalizer(p.pool, ipamv1alpha1.FinalizerPool) {
		return nil
	}
	if whole, err := p.adoption.Whole(ctx, p.id, p.pool.Status); err != nil || !whole {
		return p.freeze(ctx, cmp.Or(err, errLost))
	}
	p.ledger.Trust(p.id) // others of its domain wait for it
	err := p.ledger.Retire(ctx, p.id)
	if errors.Is(err, ledger.ErrPoolInUse) && !p.ledger.InUse(p.id) && p.retireBelow(ctx, p.id) == nil {
		err = p.ledger.Retire(ctx, p.id)
	}
	if errors.Is(err, ledger.ErrPoolInUse) {
		if !p.directory.Leaves(p.owner.Cluster) {
			p.set(ipamv1alpha1.ConditionDraining, metav1.ConditionTrue, ipamv1alpha1.ReasonBlockInUse, "the pool is deleted, and goes when the last block of it is released")
			return p.report(ctx)
		}
		// Blocks of its pool that others hold do not keep the workspace from going.
		// The ledger keeps the addresses until the last of them is given back.
		err = p.ledger.Drain(ctx, p.id)
	}
	// The slice controller drops the records of pools that it has seen. A new leader will not see this one.
	if err == nil && p.owner.Cluster == p.directory.Platform().Cluster {
		err = p.ledger.DropSlices(ctx, p.id)
	}
	if err != nil {
		return fmt.Errorf("retire pool %s: %w", p.pool.Name, err)
	}
	controllerutil.RemoveFinalizer(p.pool, ipamv1alpha1.FinalizerPool)
	log.FromContext(ctx).Info("pool retired", "prefix", p.pool.Status.AllocatedCIDR)
	return nil
}
