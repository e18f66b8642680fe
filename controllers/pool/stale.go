package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"go4.org/netipx"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// errStale: the pool is deleted, or its spec has changed, and the cache does not show it.
var errStale = errors.New("the pool is deleted or changed, and the cache does not show it")

// confirm asks a server whether the pool exists, is not being deleted, and has the spec that the cache shows. Otherwise
// it fails. The cache of a new leader may be older than what the former leader has followed. By such a cache a retired
// pool would enter again, and never be removed. A change of the spec would be undone, and addresses that are excluded
// would be allocated.
func (p *pass) confirm(ctx context.Context) error {
	answer, err := p.Oracle.Holder(ctx,
		ledger.Holder{Claim: ledger.ClaimID(p.id), Cluster: p.owner.Cluster, Name: p.pool.Name})
	switch {
	case err != nil:
		return fmt.Errorf("ask whether the pool is as the cache shows it: %w", err)
	case answer.Verdict == live.Gone, answer.Leaving:
		return errStale
	case answer.Verdict != live.Alive:
		return errors.New("no server can be asked whether the pool is as the cache shows it")
	case answer.Object.GetGeneration() != p.pool.Generation:
		return errStale
	}
	return nil
}

// exclude sets the exclusions of the pool in the ledger to what the spec says.
func (p *pass) exclude(ctx context.Context, entered ledger.Pool) error {
	next, err := resolve.Excluded(entered.CIDR, p.pool.Spec)
	if err != nil {
		return err
	}
	drops, err := reachesBeyond(entered.Excluded, next)
	if err == nil && drops {
		err = p.confirm(ctx)
	}
	if err != nil {
		return err
	}
	return p.Ledger.Pools.Exclude(ctx, p.id, next)
}

// reachesBeyond reports whether some of these addresses are not among the others.
func reachesBeyond(these, others []netip.Prefix) (bool, error) {
	var rest netipx.IPSetBuilder
	for _, prefix := range these {
		rest.AddPrefix(prefix)
	}
	for _, prefix := range others {
		rest.RemovePrefix(prefix)
	}
	set, err := rest.IPSet()
	return err == nil && len(set.Ranges()) > 0, err
}

// Adoption restores what the ledger has lost, from the published records.
type Adoption interface {
	// Whole reports whether the ledger has all that it had when the status of a pool was written. The pool stays frozen
	// until it has.
	Whole(ctx context.Context, id ledger.PoolID, shown ipamv1alpha1.IPPoolStatus) (bool, error)
}

// errLost: the ledger does not have everything that was published of the pool. If a decision relied on this ledger, an
// address could get a second owner.
var errLost error = &outcome.Fault{
	Message: "frozen: the ledger was lost or restored from an older copy, " +
		"and takes the blocks from the published records first",
}

// whole fails unless the ledger has lost nothing of the pool. A root pool that is not registered yet may overlap any
// pool of its workspace, so the ledger must have lost nothing of these either.
func (p *pass) whole(ctx context.Context) error {
	if whole, err := p.Adoption.Whole(ctx, p.id, p.pool.Status); err != nil || !whole {
		return cmp.Or(err, errLost)
	}
	if _, known := p.Ledger.Pools.Get(p.id); known || p.pool.Spec.Carved() {
		return nil
	}
	others := &ipamv1alpha1.IPPoolList{}
	if err := p.cluster.GetCache().List(ctx, others, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the pools of the workspace: %w", err)
	}
	for i := range others.Items {
		id, ok := catalog.ShownID(&others.Items[i], p.owner.Cluster, p.Directory.Platform().Cluster)
		if !ok {
			continue // it never had a CIDR
		}
		if whole, err := p.Adoption.Whole(ctx, id, others.Items[i].Status); err != nil || !whole {
			err = cmp.Or(err, errLost)
			refusal, _ := outcome.Failed(err)
			return &outcome.Fault{Message: fmt.Sprintf("pool %s is %s", others.Items[i].Name, refusal.Message), Err: err}
		}
	}
	return nil
}
