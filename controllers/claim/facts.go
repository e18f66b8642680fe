package claim

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// pass is one reconcile of one claim, or the answer to its CREATE. It reads the facts that the table asks for, and
// carries out the actions of the table.
type pass struct {
	r        *Reconciler
	claim    *ipamv1alpha1.IPClaim
	cache    client.Reader // of the claim's workspace
	slot     slot
	waits    waiter // of a stored claim
	report   report // of a stored claim
	decision decision

	facts   facts
	does    verb         // the last action of the table
	asked   bool         // the ledger was asked for a block
	block   ledger.Block // the claim's block, if facts.held is own
	former  ledger.Block // the block of another ID of the claim's name, to be taken over or settled
	refusal error        // why the claim does not get the former block
}

// asCreated reads the facts about a CREATE: whether the cache shows a claim of the name. For a range it also asks a
// server whether that claim is gone, because a range has no record that would tell of a former claim.
func (p *pass) asCreated(ctx context.Context) error {
	p.facts = said(p.claim)
	former := &ipamv1alpha1.IPClaim{}
	if err := p.cache.Get(ctx, client.ObjectKeyFromObject(p.claim), former); err != nil {
		return client.IgnoreNotFound(err)
	}
	gone, err := false, error(nil)
	if p.facts.target == aRange {
		gone, err = p.r.Releases.Gone(ctx, promise.HolderOf(p.decision.from.Cluster, former))
	}
	if !gone {
		p.facts.being = twin
	}
	return err
}

// said returns the facts that the claim itself shows.
func said(claim *ipamv1alpha1.IPClaim) (f facts) {
	if claim.Status.AllocatedCIDR != "" {
		f.showing = filled
	}
	if resolve.IsRange(claim) {
		f.target, f.record = aRange, none
	}
	return f
}

// asStored reads those facts about a stored claim that are in memory.
func (p *pass) asStored() {
	p.facts = said(p.claim)
	switch isDenied, _ := p.r.memory.markedGone(p.claim.UID); {
	case !p.claim.DeletionTimestamp.IsZero():
		p.facts.being = deleted
	case p.r.Directory.Leaves(p.decision.from.Cluster):
		p.facts.being = leaving // the claim is about to be deleted, and nothing can be made beside it
	case isDenied:
		p.facts.being = denied
	default:
		p.facts.being = stored
	}
}

// findRecord reads facts.record, and notes a claim that is settled. It returns errUnseen while the server has, or may
// have, a newer record than the cache.
func (p *pass) findRecord(ctx context.Context) (err error) {
	if p.slot.Slot, err = record.Find(ctx, p.cache, client.ObjectKeyFromObject(p.claim)); err != nil {
		return err
	}
	switch found := p.slot.Record; {
	case found == nil:
		p.facts.record = none
	case p.facts.being != created && p.slot.own():
		p.facts.record = own
	case found.Spec.ClaimRef == nil:
		p.facts.record = retained
	default:
		p.facts.record = others
	}
	if p.facts.being != stored && p.facts.being != denied {
		return nil
	}
	if bound(p.claim, p.slot.Record) && !p.doubts() {
		p.facts.showing = settled
	} else if p.r.memory.hides(p.claim.UID, p.slot.Slot) {
		return errUnseen
	}
	return nil
}

// lookUp reads facts.held: whether the ledger has a block or range under the claim's ID.
func (p *pass) lookUp(ctx context.Context) error {
	holder := p.holder()
	block, ok, err := p.under(ctx, holder.Claim)
	switch {
	case err != nil:
		return err
	case !ok:
		p.facts.held = none
		return nil
	case block.State == ledger.Retained && holder.Claim != ledger.ClaimID(p.claim.UID):
		p.facts.held = retained
		return nil
	}
	p.r.Doubts.drop(holder.Claim)
	switch pool, _ := p.r.Ledger.Pools.Get(block.Pool); {
	case p.facts.target == aRange && showsRange(p.claim, pool):
		p.facts.showing = settled
	case p.facts.target == aBlock && p.facts.showing == filled && p.r.Answers.Unrecorded(holder):
		p.facts.server = own
	}
	return p.has(ctx, block)
}

// under returns the block that the ledger has under an ID or, for a claim for a range, the range.
func (p *pass) under(ctx context.Context, id ledger.ClaimID) (b ledger.Block, ok bool, err error) {
	if p.facts.target == aBlock {
		return p.r.Ledger.Blocks.Lookup(ctx, id)
	}
	pool, ok := p.r.Ledger.Derived.Held(id)
	if ok {
		b = rangeOf(pool)
	}
	return b, ok, nil
}

// has notes the block of the claim. If the cache shows a retained record of a former claim, has finds out whether that
// record is of the same block: then it is spent.
func (p *pass) has(ctx context.Context, block ledger.Block) error {
	p.block, p.facts.held = block, own
	if p.facts.record != retained {
		return nil
	}
	superseded, err := p.r.promises().Superseded(ctx, p.slot.Record, block)
	if superseded {
		p.facts.record, p.facts.server = spent, unread
	}
	return err
}

// findShown reads facts.shown: whether another ID of the claim's name holds the block that the claim shows. That may be
// the ID of a former claim. It may also be the claim's own allocation ID, if a server that does not know
// status.allocationID has dropped it. A text that is not a prefix lies in no pool.
func (p *pass) findShown(ctx context.Context) error {
	p.facts.shown = none
	prefix, _ := netip.ParsePrefix(p.claim.Status.AllocatedCIDR)
	if !prefix.IsValid() {
		return nil
	}
	block, holds, err := p.namesake(ctx, prefix)
	if holds {
		p.former, p.facts.shown = block, others
	}
	return err
}

// namesake returns the block at a prefix, if a claim of this name holds it. It looks in the pool that the claim's
// status names, and in the tenant's address spaces of that pool. It finds no ranges: see contest.
func (p *pass) namesake(ctx context.Context, shown netip.Prefix) (b ledger.Block, ok bool, err error) {
	pools, err := p.shownPools(ctx)
	if err != nil || p.facts.target == aRange {
		return b, false, err
	}
	for _, id := range pools {
		blocks, err := p.r.Ledger.Pools.Overlapping(ctx, id, shown)
		if err != nil && !errors.Is(err, ledger.ErrUnknownPool) {
			return b, false, err
		}
		if at := slices.IndexFunc(blocks, func(b ledger.Block) bool {
			return b.Prefix == shown && b.State != ledger.Cooling && promise.Follows(b, p.decision.holder)
		}); at >= 0 {
			return blocks[at], true, nil
		}
	}
	return b, false, nil
}

// shownPools returns the pool that the claim's status names, and its address spaces for the claim's tenant.
func (p *pass) shownPools(ctx context.Context) (pools []ledger.PoolID, err error) {
	id, found, err := p.shownPool(ctx)
	if err != nil || !found {
		return nil, err
	}
	pools = append(pools, id)
	for _, space := range p.r.Ledger.Derived.Spaces(id) {
		if space.Derived.Workspace == p.decision.tenant() {
			pools = append(pools, space.ID)
		}
	}
	return pools, nil
}

// shownPool finds the pool that the claim's status names.
func (p *pass) shownPool(ctx context.Context) (id ledger.PoolID, found bool, err error) {
	ref, owner, view := p.claim.Status.PoolRef, p.decision.from, p.r.Catalog.View(ctx)
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
	id, known := catalog.IDOf(p.r.Ledger.Pools, pool, owner.Cluster)
	return id, found && known && view.Err() == nil, view.Err()
}

// findLeft reads facts.left. A former claim of the name may have left a record that names it, a record that retains a
// block, or a block whose record the cache does not show yet.
func (p *pass) findLeft(ctx context.Context) (err error) {
	found := p.slot.Record
	switch p.facts.record {
	case others: // the record names the other claim, which has the same name
		p.former = ledger.Block{Holder: p.decision.holder}
		p.former.Holder.Claim = ledger.ClaimID(found.AllocationID())
		p.former.Prefix, _ = netip.ParsePrefix(found.Status.AllocatedCIDR)
		p.facts.left = others
	case retained:
		return p.findRetained(ctx)
	default:
		p.facts.left = none
		if p.facts.target == aRange && p.facts.being != created {
			return nil // a range has no record that could be in the way
		}
		ok := false
		if p.former, ok, err = p.r.left(ctx, p.decision.holder); ok {
			p.facts.left = others
		}
	}
	return err
}

// findRetained reads whether the claim gets the block that a retained record keeps. A claim that shows a block already
// does not get the retained one: it waits for the deletion of the record.
func (p *pass) findRetained(ctx context.Context) (err error) {
	found := p.slot.Record
	if p.facts.showing != blank {
		p.decision.waits.enter([]topic{
			recordTopicOf(p.decision.from.Cluster, found.Namespace, found.Name),
			{kind: nameTopic, cluster: p.decision.from.Cluster},
		})
		err = retains(found)
	} else if p.former, err = p.decision.former(ctx, found); err != nil {
		p.decision.waits.nowhere()
	}
	if _, refused := errors.AsType[*outcome.Refusal](err); refused {
		p.refusal, p.facts.left = err, retained
		return nil
	}
	p.facts.left = ours
	return err
}

// askServer reads facts.server: whether a server shows the claim now, with the block that the cache shows, or with none
// if the cache shows none. A stale cache may show a claim that is gone, or lack the block that was published for it. A
// kcp that was restored from an older copy has neither the claim nor its record, and the cache may learn of the missing
// record first. A record that is written again would pass for proof that this kcp knew the claim, and the claim's block
// would be freed.
func (p *pass) askServer(ctx context.Context) error {
	p.facts.server = none
	now, err := p.r.Releases.Alive(ctx, p.itself())
	if err == nil && now != nil && now.Status.AllocatedCIDR == p.claim.Status.AllocatedCIDR {
		p.facts.server = own
	}
	return err
}

// A claim may show a block that the ledger never gave to it. kcp decides which export serves a request before it reads
// the body, and then asks the webhooks and policies of the bindings that it finds. So a claim may be stored with a
// status that is not the answer of the door, and that no policy has seen.
//
//	the ledger lacks the block ──▶ the claim is 75 s old, and 10 s later still so
//	──▶ a server shows the same, and no record ──▶ every pool that the claim may show is complete
//	──▶ no claim of its name has the block in the ledger ──▶ the block is taken back
//
// The ledger is asked last: meanwhile it may have adopted a block that it lacked.

// prove finds out whether the claim was never given the block that it shows: facts.shown becomes forged or doubtful.
// Only one worker at a time does this, because it lists all pools: many such claims must not occupy all workers.
func (p *pass) prove(ctx context.Context) {
	shown := p.claim.Status.AllocatedCIDR
	p.facts.shown = doubtful
	if p.r.clock.Since(p.claim.CreationTimestamp.Time) < promise.Grace || !p.r.memory.lacks(p.claim.UID, shown) ||
		!p.r.taking.TryLock() {
		return
	}
	defer p.r.taking.Unlock()
	if err := p.forged(ctx); err != nil {
		log.FromContext(ctx).Info("a block that the ledger does not have is not taken back yet", "prefix", shown,
			"why", err.Error())
		return
	}
	p.facts.shown = forged
}

// errIncomplete: the ledger may have lost the block that the claim shows.
var errIncomplete = errors.New("a pool that it may show is not in the ledger, or is frozen")

// forged returns nil only if it is certain that the claim was never given the block that it shows.
func (p *pass) forged(ctx context.Context) error {
	shown := p.claim.Status.AllocatedCIDR
	now, recorded, err := p.r.Releases.Published(ctx, p.decision.holder)
	if err != nil {
		return err
	}
	if now == nil || now.Status.AllocatedCIDR != shown || recorded {
		return errUnsure
	}
	if prefix, err := netip.ParsePrefix(shown); err == nil { // another text lies in no pool
		if whole, err := p.r.Complete(ctx, p.decision.from.Cluster, now); err != nil || !whole {
			return cmp.Or(err, errIncomplete)
		}
		if _, holds, err := p.namesake(ctx, prefix); err != nil || holds {
			return cmp.Or(err, errFormer)
		}
	}
	for _, id := range []ledger.ClaimID{ledger.ClaimID(p.claim.UID), p.decision.holder.Claim} {
		if _, has, err := p.under(ctx, id); err != nil || has {
			return cmp.Or(err, errFormer)
		}
	}
	return nil
}

// itself returns the claim as a holder under its UID, by which the servers know it.
func (p *pass) itself() ledger.Holder {
	h := p.decision.holder
	h.Claim = ledger.ClaimID(p.claim.UID)
	return h
}

// holder returns a stored claim as the holder of its block. The ID is the allocation ID that the claim's record names,
// else the allocation ID of its status, or its UID.
func (p *pass) holder() ledger.Holder {
	h := promise.HolderOf(p.decision.from.Cluster, p.claim)
	if p.slot.own() && p.slot.Record.Spec.ClaimRef.AllocationID != "" {
		h.Claim = ledger.ClaimID(p.slot.Record.AllocationID())
	}
	return h
}

// succeeds returns true if a server shows the claim now: then no other claim of its name exists. Otherwise it returns
// an error.
func (p *pass) succeeds(ctx context.Context, _ ledger.Holder, _ time.Time) (bool, error) {
	now, err := p.r.Releases.Alive(ctx, p.itself())
	if err == nil && now == nil {
		err = errUnsure
	}
	return err == nil, err
}
