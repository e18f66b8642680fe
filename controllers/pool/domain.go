package pool

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
)

// moves reports whether the spec puts a pool in another domain than the ledger has it in.
func (p *pass) moves(entered ledger.Pool) bool {
	return entered.Space != catalog.Space(p.pool, entered.Cluster)
}

// leave takes a pool out of its domain, so that it can enter another.
// It is known still if it is in use: admission has seen it a moment too late, and
// the pool stays where its blocks are until the last of them is gone.
func (p *pass) leave(ctx context.Context) (known bool, err error) {
	err = p.ledger.Retire(ctx, p.id)
	if errors.Is(err, ledger.ErrPoolInUse) {
		return true, nil
	}
	if err != nil {
		return true, fmt.Errorf("take pool %s out of its address domain: %w", p.pool.Name, err)
	}
	// What the status says is no longer so, and the other domain may refuse the pool.
	p.pool.Status = ipamv1alpha1.IPPoolStatus{Conditions: p.pool.Status.Conditions}
	p.wakeUnready(ctx, p.request.ClusterName, p.cluster, p.queue) // it was in the way of some, perhaps
	log.FromContext(ctx).Info("pool left its address domain")
	return false, nil
}
