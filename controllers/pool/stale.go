package pool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"go4.org/netipx"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// errStale: the pool is deleted, or its spec has changed, and the cache does not show it.
var errStale = errors.New("the pool is deleted or changed, and the cache does not show it")

// confirm makes sure that the pool is not deleted, and that its spec is the one that the cache shows. A new
// leader's cache may be older than what the former leader has followed. It would enter again, and never remove, a
// pool that was retired, and it would undo a change of the spec: addresses that are excluded would be allocated.
func (p *pass) confirm(ctx context.Context) error {
	answer, err := p.Oracle.Holder(ctx, ledger.Holder{Claim: ledger.ClaimID(p.id), Cluster: p.owner.Cluster, Name: p.pool.Name})
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

// exclude makes the exclusions of the ledger's pool what the spec says.
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
