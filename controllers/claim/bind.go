package claim

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// errUnsure: no server has shown yet that the claim is there with the block that it shows in
// the cache.
var errUnsure error = &outcome.Fault{Message: "no server shows the claim with the block that the cache shows"}

// bind finds the claim its block: the one it has, as long as it has one.
func (p *pass) bind(ctx context.Context) (ledger.Block, error) {
	if p.claim.Status.AllocatedCIDR != "" || p.slot.own() {
		block, err := p.held(ctx)
		if err == nil {
			err = p.settleFormer(ctx, block)
		}
		return block, err
	}
	if former := p.slot.Record; former != nil && former.Spec.ClaimRef == nil {
		return p.reuse(ctx)
	}
	if err := p.settleFormer(ctx, ledger.Block{}); err != nil {
		return ledger.Block{}, err
	}
	return p.decision().place(ctx)
}

// unpublished frees the block of a claim that was bound before the retained record of its name was seen, and was
// never published.
func (p *pass) unpublished(ctx context.Context, has bool) error {
	// A cache that lags may show a claim that is gone, which would take the block along.
	if err := p.shows(ctx, ""); err != nil || !has {
		return err
	}
	return p.Ledger.Blocks.Release(ctx, p.holder().Claim)
}

// shows fails unless a server shows, now, that the claim is there with this block, or with none. A cache that lags may
// show a claim that is gone, or hide the block that was published for it. A kcp that was restored from an older copy
// knows neither the claim nor its record, and the cache may be told of the record first. To write that again would be
// taken for proof that this kcp knew the claim, and its block would be freed.
func (p *pass) shows(ctx context.Context, block string) error {
	now, err := p.Releases.Alive(ctx, p.itself())
	if err == nil && (now == nil || now.Status.AllocatedCIDR != block) {
		return errUnsure
	}
	return err
}

// decision is that of the claim, which may wait.
func (p *pass) decision() *decision {
	return &decision{
		Reconciler: p.Reconciler, claim: p.claim, from: p.from, holder: p.holder(),
		since: p.claim.CreationTimestamp.Time, ask: p.ask, waits: p.waits, succeeds: p.succeeds,
	}
}

// succeeds returns true if a server shows, now, that the claim is there, so that no other of its name is. It fails
// otherwise.
func (p *pass) succeeds(ctx context.Context, _ ledger.Holder, _ time.Time) (bool, error) {
	now, err := p.Releases.Alive(ctx, p.itself())
	if err == nil && now == nil {
		err = errUnsure
	}
	return err == nil, err
}

// ask asks the ledger for a block. From here on it is the ledger that serves the oldest first.
func (p *pass) ask(ctx context.Context, r ledger.Request) (ledger.Block, error) {
	p.end(p.waits.request, false)
	if ledger.Digest(r.Pool) != "" { // nobody else compares what the system has made
		return compared(p.Compare, p.Ledger.Blocks.Bind)(ctx, r)
	}
	return p.Ledger.Blocks.Bind(ctx, r)
}

// held returns the block of a claim that shows one, or that has a record: of a claim that was bound before, or whose
// CREATE was answered. It is never exchanged for another. A claim that shows one which it was
// never given loses that: see unbacked. The first record of a claim needs no look at a server: its CREATE was answered
// by this process.
func (p *pass) held(ctx context.Context) (ledger.Block, error) {
	holder := p.holder()
	block, ok, err := p.Ledger.Blocks.Lookup(ctx, holder.Claim)
	switch {
	case err != nil:
		return block, err
	case !ok && p.slot.own():
		return p.regain(ctx)
	case !ok || block.State == ledger.Retained && holder.Claim != ledger.ClaimID(p.claim.UID):
		return p.inherit(ctx)
	}
	p.Doubts.drop(holder.Claim)
	if !p.slot.own() && !p.Answers.Unrecorded(holder) {
		err = p.shows(ctx, p.claim.Status.AllocatedCIDR)
	}
	return block, err
}

// inherit gives the claim the block that it shows and that is held under its name by another ID: by that of a former
// claim, or by its own that got lost, as where a server knows no such field. A server has to show the claim with the
// block.
func (p *pass) inherit(ctx context.Context) (ledger.Block, error) {
	prefix, err := netip.ParsePrefix(p.claim.Status.AllocatedCIDR)
	if err != nil {
		return ledger.Block{}, p.unbacked(ctx)
	}
	block, ok, err := p.shown.inherits(ctx, prefix)
	switch {
	case err != nil:
	case ok:
		err = p.shows(ctx, p.claim.Status.AllocatedCIDR)
	default:
		err = p.unbacked(ctx)
	}
	if err != nil {
		return ledger.Block{}, err
	}
	return p.take(ctx, block)
}

// settleFormer settles what another claim of this name has left: a record, or a block whose record the cache may come
// to show. own is the block of this claim, if it shows one.
func (p *pass) settleFormer(ctx context.Context, own ledger.Block) error {
	record := p.slot.Record
	switch {
	case p.slot.own():
		return nil
	case record == nil:
		kept, ok, err := p.left(ctx, p.holder())
		if !ok || err != nil {
			return err
		}
		return p.settleLeft(ctx, kept.Holder, kept.Prefix.String())
	}
	if record.Spec.ClaimRef == nil {
		if done, err := p.promises().Superseded(ctx, record, own); done || err != nil {
			return cmp.Or(err, p.slot.dropFormer(ctx))
		}
		p.waits.enter([]topic{recordTopicOf(p.from.Cluster, record.Namespace, record.Name)})
		went, err := p.recordWent(ctx)
		if err != nil || !went {
			return cmp.Or[error](err, retained(record))
		}
		return p.settleFormer(ctx, own)
	}
	former := p.holder() // of the same name: the record says so
	former.Claim = ledger.ClaimID(record.AllocationID())
	return p.settleLeft(ctx, former, record.Status.AllocatedCIDR)
}

// recordWent reports whether the retained record has gone since it was read. The claim waits for that by now: the event
// of a record that went before woke nobody.
func (p *pass) recordWent(ctx context.Context) (bool, error) {
	read := p.slot.Record.UID
	err := p.slot.find(ctx)
	return err == nil && (p.slot.Record == nil || p.slot.Record.UID != read), err
}

// settleLeft settles the block that a former claim of this name has left.
func (p *pass) settleLeft(ctx context.Context, former ledger.Holder, block string) error {
	settled, err := p.Releases.Settle(ctx, former)
	if err == nil && !settled {
		err = stillHolds(block)
	}
	if err != nil {
		return err
	}
	kept, ok, err := p.Ledger.Blocks.Lookup(ctx, former.Claim)
	if err == nil && ok && kept.State == ledger.Retained {
		err = errUnseen // the record is retained by now, as the cache is about to show
	}
	return err
}
