package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// A claim may show a block that the ledger never gave to it: kcp decides who serves a request before it
// reads the body, and asks webhooks and policies by the bindings that it finds afterwards. So the status that
// is stored need not be the one that the door has answered, nor one that any policy has seen.
//
//	shown without a block ──▶ 75 s old, 10 s later still so ──▶ live: the same, and no record
//	──▶ no pool that it may show lacks anything ──▶ no former claim of its name has it ──▶ not in the ledger: taken back
//
// The ledger is asked last. What it was found to lack before that may have been adopted meanwhile.

// unbacked is what becomes of a claim that shows a block which the ledger does not have: a refusal that takes
// the block back, or an error that leaves it as it is, for now or for good.
func (p *pass) unbacked(ctx context.Context) error {
	shown := p.claim.Status.AllocatedCIDR
	kept := &outcome.Fault{Message: "the ledger has no block of this claim, which shows " + shown}
	if p.clock.Since(p.claim.CreationTimestamp.Time) < promise.Grace || !p.memory.lacks(p.claim.UID, shown) {
		return kept
	}
	if !p.taking.TryLock() {
		return kept // one worker at a time lists all pools for that, so that many such claims leave the others to everybody else
	}
	defer p.taking.Unlock()
	if err := p.shown.forged(ctx); err != nil {
		log.FromContext(ctx).Info("a block that the ledger does not have is not taken back yet", "prefix", shown, "why", err.Error())
		return kept
	}
	p.claim.Status = ipamv1alpha1.IPClaimStatus{}
	corrections.Inc()
	log.FromContext(ctx).Info("took back a block that the ledger does not have", "prefix", shown)
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonError, Message: fmt.Sprintf(
		"%s was shown and never given to this claim; it is taken back", shown)}
}

// releasing ends the waits of a claim that is being deleted, and takes back a block that the claim shows, and never
// had: a finalizer may keep the claim for ever, and with it a workspace that gives up the export.
func (p *pass) releasing(ctx context.Context) (err error) {
	p.waits.leave()
	p.claim.Status.Phase = ipamv1alpha1.ClaimReleasing
	if p.claim.Status.AllocatedCIDR == "" {
		return nil
	}
	if !resolve.IsRange(p.claim) {
		err = p.slot.find(ctx)
	}
	if err != nil || p.slot.own() {
		return err
	}
	if has, err := p.shown.has(ctx, p.holder().Claim); err != nil || has {
		return err
	}
	err = p.unbacked(ctx)
	refusal, taken := errors.AsType[*outcome.Refusal](err)
	if !taken {
		return err
	}
	p.report.refuse(ctx, refusal)
	p.claim.Status.Phase = ipamv1alpha1.ClaimReleasing
	return nil
}

// showing is a claim that shows a block, and may never have been given one.
type showing struct {
	Options
	from  directory.Workspace
	claim *ipamv1alpha1.IPClaim
}

// forged fails unless it is certain that the claim was never given the block that it shows.
func (s showing) forged(ctx context.Context) error {
	shown := s.claim.Status.AllocatedCIDR
	now, recorded, err := s.Releases.Published(ctx, promise.HolderOf(s.from.Cluster, s.claim))
	if err != nil {
		return err
	}
	if now == nil || now.Status.AllocatedCIDR != shown || recorded {
		return errUnsure
	}
	if prefix, err := netip.ParsePrefix(shown); err == nil { // another text lies in no pool
		if whole, err := s.Complete(ctx, s.from.Cluster, now); err != nil || !whole {
			return cmp.Or(err, errIncomplete)
		}
		if _, inherits, err := s.inherits(ctx, prefix); err != nil || inherits {
			return cmp.Or(err, errFormer)
		}
	}
	for _, id := range []ledger.ClaimID{ledger.ClaimID(s.claim.UID), promise.IDOf(s.from.Cluster, s.claim)} {
		if has, err := s.has(ctx, id); err != nil || has {
			return cmp.Or(err, errFormer)
		}
	}
	return nil
}

// has reports whether the ledger has a block, or for a claim of that kind a range, under a holder.
func (s showing) has(ctx context.Context, holder ledger.ClaimID) (ok bool, err error) {
	if resolve.IsRange(s.claim) {
		_, ok = s.Ledger.Derived.Held(holder)
		return ok, nil
	}
	_, ok, err = s.Ledger.Blocks.Lookup(ctx, holder)
	return ok, err
}

// inherits finds the block that the claim shows and that is held under its name by another ID. A range is held by name,
// see contest.
func (s showing) inherits(ctx context.Context, shown netip.Prefix) (b ledger.Block, ok bool, err error) {
	pools, err := s.pools(ctx)
	if err != nil || resolve.IsRange(s.claim) {
		return b, false, err
	}
	for _, id := range pools {
		blocks, err := s.Ledger.Pools.Overlapping(ctx, id, shown)
		if err != nil && !errors.Is(err, ledger.ErrUnknownPool) {
			return b, false, err
		}
		if at := slices.IndexFunc(blocks, func(b ledger.Block) bool {
			return b.Prefix == shown && b.State != ledger.Cooling && promise.Follows(b, promise.HolderOf(s.from.Cluster, s.claim))
		}); at >= 0 {
			return blocks[at], true, nil
		}
	}
	return b, false, nil
}

// pool finds the pool that the claim shows.
func (s showing) pool(ctx context.Context) (id ledger.PoolID, found bool, err error) {
	ref, owner, view := s.claim.Status.PoolRef, s.from, s.Catalog.View(ctx)
	if ref == nil {
		return "", false, nil
	}
	if ref.ProjectRef != nil {
		known := false
		if owner, known = view.Workspace(ref.ProjectRef.Name); !known {
			return "", false, nil
		}
	}
	pool, found := view.Pool(owner, ref.Name)
	id, known := catalog.IDOf(s.Ledger.Pools, pool, owner.Cluster)
	return id, found && known && view.Err() == nil, view.Err()
}

// pools finds the pool that the claim shows, and the address spaces of that which are for the claim's workspace.
func (s showing) pools(ctx context.Context) (pools []ledger.PoolID, err error) {
	id, found, err := s.pool(ctx)
	if err != nil || !found {
		return nil, err
	}
	pools = append(pools, id)
	for _, space := range s.Ledger.Derived.Spaces(id) {
		if space.Derived.Workspace == s.from.Cluster.Tenant(s.claim.Namespace) {
			pools = append(pools, space.ID)
		}
	}
	return pools, nil
}

// errIncomplete: the ledger may have lost what the claim shows.
var errIncomplete = errors.New("a pool that it may show is not in the ledger, or is frozen")
