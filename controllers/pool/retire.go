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
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
)

// retire takes a deleted pool out of the ledger. While it is in use it stays.
func (p *pass) retire(ctx context.Context) error {
	p.waiting.leave(p.request)
	p.Ledger.Waits.Withdraw(ledger.ClaimID(p.id))
	if !controllerutil.ContainsFinalizer(p.pool, ipamv1alpha1.FinalizerPool) {
		return nil
	}
	if whole, err := p.Adoption.Whole(ctx, p.id, p.pool.Status); err != nil || !whole {
		return p.freeze(ctx, cmp.Or(err, errLost))
	}
	p.Ledger.Recovery.Trust(p.id) // others of its domain wait for it
	err := p.Ledger.Pools.Retire(ctx, p.id)
	if errors.Is(err, ledger.ErrPoolInUse) && !p.Ledger.Pools.InUse(p.id) && p.RetireBelow(ctx, p.id) == nil {
		err = p.Ledger.Pools.Retire(ctx, p.id)
	}
	if errors.Is(err, ledger.ErrPoolInUse) {
		if !p.Directory.Leaves(p.owner.Cluster) {
			p.set(ipamv1alpha1.ConditionDraining, metav1.ConditionTrue, ipamv1alpha1.ReasonBlockInUse, "the pool is deleted, and goes when the last block of it is released")
			return p.report(ctx)
		}
		// Blocks of its pool that others hold do not keep the workspace from going.
		// The ledger keeps the addresses until the last of them is given back.
		err = p.Ledger.Pools.Drain(ctx, p.id)
	}
	// The slice controller drops the records of pools that it has seen. A new leader will not see this one.
	if err == nil && p.owner.Cluster == p.Directory.Platform().Cluster {
		err = p.Ledger.Slices.DropAll(ctx, p.id)
	}
	if err != nil {
		return fmt.Errorf("retire pool %s: %w", p.pool.Name, err)
	}
	controllerutil.RemoveFinalizer(p.pool, ipamv1alpha1.FinalizerPool)
	log.FromContext(ctx).Info("pool retired", "prefix", p.pool.Status.AllocatedCIDR)
	return nil
}

// moves reports whether the spec puts a pool in another domain than the ledger has it in.
func (p *pass) moves(entered ledger.Pool) bool {
	return entered.Space != catalog.Space(p.pool, entered.Cluster)
}

// leave takes a pool out of its domain, so that it can enter another.
// It is known still if it is in use: admission has seen it a moment too late, and
// the pool stays where its blocks are until the last of them is gone.
func (p *pass) leave(ctx context.Context) (known bool, err error) {
	err = p.Ledger.Pools.Retire(ctx, p.id)
	if errors.Is(err, ledger.ErrPoolInUse) {
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("take pool %s out of its address domain: %w", p.pool.Name, err)
	}
	// What the status says is no longer so, and the other domain may refuse the pool.
	p.pool.Status = ipamv1alpha1.IPPoolStatus{Conditions: p.pool.Status.Conditions}
	p.wakeUnready(ctx, p.request.ClusterName, p.cluster, p.Queue) // it was in the way of some, perhaps
	log.FromContext(ctx).Info("pool left its address domain")
	return false, nil
}
