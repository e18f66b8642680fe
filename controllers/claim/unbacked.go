package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
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
// the block back, or an error that leaves it as it is, for now or, where an IPAllocation says the same, for
// good. That was written after the block was in the ledger, so it is the ledger that has lost something.
func (p *pass) unbacked(ctx context.Context) error {
	shown := p.claim.Status.AllocatedCIDR
	kept := &outcome.Fault{Message: "the ledger has no block of this claim, which shows " + shown}
	if p.recorded() || p.age() < promise.Grace || !p.memory.lacks(p.claim.UID, shown) {
		return kept
	}
	if err := p.forged(ctx, shown); err != nil {
		log.FromContext(ctx).Info("a block that the ledger does not have is not taken back yet", "prefix", shown, "why", err.Error())
		return kept
	}
	p.claim.Status = ipamv1alpha1.IPClaimStatus{}
	corrections.Inc()
	log.FromContext(ctx).Info("took back a block that the ledger does not have", "prefix", shown)
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonError, Message: fmt.Sprintf(
		"%s was shown and never given to this claim; it is taken back", shown)}
}

// releasing takes back a block that a claim shows, and never had, while the claim is being deleted: a finalizer may keep the
// claim for ever, and with it a workspace that gives up the export.
func (p *pass) releasing(ctx context.Context) (err error) {
	if p.claim.Status.AllocatedCIDR == "" {
		return nil
	}
	if p.slot, err = record.Find(ctx, p.cluster.GetClient(), client.ObjectKeyFromObject(p.claim)); err != nil || p.recorded() {
		return err
	}
	if _, has, err := p.ledger.Lookup(ctx, ledger.ClaimID(p.claim.UID)); err != nil || has {
		return err
	}
	err = p.unbacked(ctx)
	refusal, taken := errors.AsType[*outcome.Refusal](err)
	if !taken {
		return err
	}
	p.refuse(ctx, refusal)
	p.claim.Status.Phase = ipamv1alpha1.ClaimReleasing
	return nil
}

// forged fails unless it is certain that the claim was never given the block that it shows.
func (p *pass) forged(ctx context.Context, shown string) error {
	now, recorded, err := p.releases.Published(ctx, p.holder())
	if err != nil {
		return err
	}
	if now == nil || now.Status.AllocatedCIDR != shown || recorded {
		return errUnsure
	}
	if prefix, err := netip.ParsePrefix(shown); err == nil { // another text lies in no pool
		if whole, err := p.complete(ctx, p.from.Cluster, now); err != nil || !whole {
			return cmp.Or(err, errIncomplete)
		}
		if inherits, err := p.inherits(ctx, prefix); err != nil || inherits {
			return cmp.Or(err, errFormer)
		}
	}
	for _, id := range []ledger.ClaimID{ledger.ClaimID(p.claim.UID), promise.Of(p.from.Cluster, p.claim)} {
		if _, found, err := p.ledger.Lookup(ctx, id); err != nil || found {
			return cmp.Or(err, errTurn)
		}
	}
	return nil
}

// inherits reports whether a former claim of this name holds what the claim shows, or its reservation does. Then a CREATE
// was answered with that, and the claim is about to get it: see package release.
func (p *pass) inherits(ctx context.Context, shown netip.Prefix) (bool, error) {
	id, ok, err := p.poolShown(ctx)
	if err != nil || !ok {
		return false, err
	}
	blocks, err := p.ledger.Overlapping(ctx, id, shown)
	if errors.Is(err, ledger.ErrUnknownPool) {
		return false, nil
	}
	return slices.ContainsFunc(blocks, func(b ledger.Block) bool {
		return b.Prefix == shown && b.State != ledger.Cooling && promise.Follows(b, p.holder())
	}), err
}

// poolShown finds the pool that the claim shows; ok is false if there is none.
func (p *pass) poolShown(ctx context.Context) (id ledger.PoolID, ok bool, err error) {
	ref, owner, view := p.claim.Status.PoolRef, p.from, p.catalog.View(ctx)
	if ref == nil {
		return "", false, nil
	}
	if ref.ProjectRef != nil {
		if owner, ok = view.Workspace(ref.ProjectRef.Name); !ok {
			return "", false, nil
		}
	}
	pool, ok := view.Pool(owner, ref.Name)
	return ledger.PoolID(pool.UID), ok, view.Err()
}

// errIncomplete: the ledger may have lost what the claim shows.
var errIncomplete = errors.New("a pool that it may show is not in the ledger, or is frozen")
