package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

// settle carries out the actions of the table until one of them ends the pass.
func (p *pass) settle(ctx context.Context) error {
	for {
		p.does = decide(p.facts)
		if err := p.act(ctx); err != nil || p.does >= leave {
			return err
		}
	}
}

// act carries out the action p.does.
func (p *pass) act(ctx context.Context) error {
	switch p.does {
	case findRecord:
		return p.findRecord(ctx)
	case lookUp:
		return p.lookUp(ctx)
	case findShown:
		return p.findShown(ctx)
	case prove:
		p.prove(ctx)
	case askServer:
		return p.askServer(ctx)
	case findLeft:
		return p.findLeft(ctx)
	case confirm:
		return p.confirmAlive(ctx)
	case regain:
		return p.regain(ctx)
	case inherit:
		return p.inherit(ctx)
	case reuse:
		return p.reuse(ctx)
	case drop:
		p.facts.record, p.facts.left = none, none
		return p.slot.dropFormer(ctx)
	case settle:
		return p.settleFormer(ctx)
	case refuse, giveUp:
		return p.refuse(ctx)
	case bind:
		return p.bind(ctx)
	case leave:
	case rest:
		p.rest()
	case keep:
		return p.inDoubt()
	case later:
		return p.promised()
	case takeBack:
		return p.takeBack(ctx)
	case publish:
		return p.publish(ctx)
	}
	return nil
}

// rest notes that the claim has its block or range, and that everything about it is published.
func (p *pass) rest() {
	p.r.memory.found(p.claim.UID)
	p.r.Answers.Forget(p.holder()) // the answer to the write of its record may have got lost
	p.waits.served()
}

// errUnsure: no server has shown yet that the claim exists, with the block that the cache shows.
var errUnsure error = &outcome.Fault{Message: "no server shows the claim with the block that the cache shows"}

// inDoubt returns the error of a claim that is left as it is, because the facts do not suffice to decide.
func (p *pass) inDoubt() error {
	switch {
	case p.facts.being == created:
		return stillHolds(p.former.Prefix)
	case p.facts.server == none:
		return errUnsure
	}
	return p.lost()
}

// lost returns the fault of a claim that shows a block which the ledger does not have.
func (p *pass) lost() *outcome.Fault {
	return &outcome.Fault{Message: "the ledger has no block of this claim, which shows " + p.claim.Status.AllocatedCIDR}
}

// promised returns the refusal of a CREATE whose claim the reconcile will serve: the cache shows a claim of the name,
// or a former claim retains a block for the new claim. The CREATE leaves that claim and that block as they are, because
// it may still fail.
func (p *pass) promised() error {
	if p.facts.being == twin {
		return &outcome.Refusal{
			Reason: ipamv1alpha1.ReasonError, Message: "there was a claim of this name a moment ago; trying again",
		}
	}
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonAllocationRetained, Message: fmt.Sprintf(
		"IPAllocation %s keeps %s from a former claim of this name; this claim gets it in a moment",
		p.slot.Record.Name, p.slot.Record.Status.AllocatedCIDR)}
}

// refuse refuses the claim while the IPAllocation of a former claim retains a block. If that IPAllocation was deleted
// after the pass had read it, refuse clears the facts, and the table decides again: the deletion did not wake the
// claim, which was not waiting for it yet.
//
// For giveUp, refuse also frees the claim's own block, which was bound before the IPAllocation was seen, and was never
// published.
func (p *pass) refuse(ctx context.Context) error {
	now, err := record.Find(ctx, p.cache, client.ObjectKeyFromObject(p.claim))
	switch {
	case err != nil:
		return err
	case now.Record == nil || now.Record.UID != p.slot.Record.UID:
		p.facts.record, p.facts.held, p.facts.server, p.facts.left = unread, unread, unread, unread
		return nil
	case p.does == giveUp:
		if err := p.r.Ledger.Blocks.Release(ctx, p.holder().Claim); err != nil {
			return err
		}
	}
	return p.refusal
}

// takeBack clears the status of a claim that shows a block which it was never given.
func (p *pass) takeBack(ctx context.Context) error {
	shown := p.claim.Status.AllocatedCIDR
	p.claim.Status = ipamv1alpha1.IPClaimStatus{}
	corrections.Inc()
	log.FromContext(ctx).Info("took back a block that the ledger does not have", "prefix", shown)
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonError, Message: fmt.Sprintf(
		"%s was shown and never given to this claim; it is taken back", shown)}
}

// bind takes a block, or holds a range, by class and pools. A CREATE first waits for its turn, and then reads its facts
// again: meanwhile the claim of an earlier CREATE of the name may have been stored, and deleted.
func (p *pass) bind(ctx context.Context) (err error) {
	if p.facts.being == created && !p.decision.begun {
		if err := p.decision.begin(ctx); err != nil {
			return err
		}
		return p.asCreated(ctx)
	}
	if p.block, err = p.decision.place(ctx); err == nil {
		p.facts.held = own
	} else if _, refused := errors.AsType[*outcome.Refusal](err); refused && p.facts.being == stored && !p.asked {
		return p.refusedByPolicy(ctx, err)
	}
	return err
}

// refusedByPolicy refuses a claim that policy has refused before the ledger was asked. If an earlier pass has bound a
// block for the claim, and the answer of its transaction was lost, the claim keeps that block, as it would if the
// answer had come.
func (p *pass) refusedByPolicy(ctx context.Context, refusal error) error {
	if err := p.lookUp(ctx); err != nil || p.facts.held == own {
		return err
	}
	return refusal
}

// ask asks the ledger for a block. It first ends the claim's turn among the woken claims: from then on the ledger
// orders the claims.
func (p *pass) ask(ctx context.Context, r ledger.Request) (ledger.Block, error) {
	p.asked = true
	p.r.end(p.waits.request, false)
	if ledger.Digest(r.Pool) != "" { // nobody else compares what the system has made
		return compared(p.r.Compare, p.r.Ledger.Blocks.Bind)(ctx, r)
	}
	return p.r.Ledger.Blocks.Bind(ctx, r)
}

// inherit gives the claim the block that the claim shows, and that another ID of the claim's name holds.
func (p *pass) inherit(ctx context.Context) error {
	block, err := p.take(ctx, p.former)
	if err != nil {
		return err
	}
	return p.has(ctx, block)
}

// reuse gives the claim the block that a former claim retains. If the claim has a block of its own, which was never
// published, reuse frees it first.
func (p *pass) reuse(ctx context.Context) (err error) {
	if p.facts.held == own {
		if err := p.r.Ledger.Blocks.Release(ctx, p.holder().Claim); err != nil {
			return err
		}
	}
	if p.block, err = p.take(ctx, p.former); err != nil {
		return err
	}
	p.decision.waits.nowhere()
	p.facts.held, p.facts.record, p.facts.server = own, spent, unread
	return nil
}

// take gives the claim a block that another ID of its name holds. It fails with a fault while the ledger cannot hand
// the block over.
func (p *pass) take(ctx context.Context, block ledger.Block) (taken ledger.Block, err error) {
	ctx, end := step(ctx, "reuse")
	defer func() { end(err) }()
	taken, err = p.r.promises().Give(ctx, block, p.claim)
	// the block is not as it was read, or this claim has another block, which may cool for a day
	if errors.Is(err, ledger.ErrChanged) {
		return ledger.Block{}, &outcome.Fault{
			Message: "the block of the former claim of this name cannot be taken over now", Err: err,
		}
	}
	if err == nil {
		p.r.Answers.Forget(block.Holder)
	}
	return taken, err
}

// settleFormer frees or retains the block that a former claim of this name has left. It fails while the former claim
// may still hold the block. If the block is retained, it returns errUnseen: the pass needs the record of that block
// first.
func (p *pass) settleFormer(ctx context.Context) error {
	p.facts.left = none
	settled, err := p.r.Releases.Settle(ctx, p.former.Holder)
	if err == nil && !settled {
		err = stillHolds(p.former.Prefix)
	}
	if err != nil {
		return err
	}
	kept, ok, err := p.r.Ledger.Blocks.Lookup(ctx, p.former.Holder.Claim)
	if err == nil && ok && kept.State == ledger.Retained {
		err = errUnseen // the cache is about to show the retained record
	}
	return err
}

// errFormer: it is not certain yet that the former claim is gone.
var errFormer = errors.New("the end of the former claim is not confirmed")

// stillHolds returns an errFormer that names the block of the former claim.
func stillHolds(block netip.Prefix) error {
	return &outcome.Fault{Message: "the former claim of this name still holds " + block.String(), Err: errFormer}
}

// publish writes the record of the claim's block, and sets the claim's status. A range has no record.
func (p *pass) publish(ctx context.Context) error {
	p.waits.served()
	p.report.bound = true
	if p.facts.target == aRange {
		return p.publishRange(ctx)
	}
	if p.facts.record != own {
		p.r.noteFormer(ctx, p.holder(), p.claim) // the cache may drop the claim before its deletion is handled
	}
	err := p.publishBlock(ctx)
	if _, barred := errors.AsType[*record.BarredError](err); barred || apierrors.IsAlreadyExists(err) {
		err = p.report.fail(ctx, err)
	}
	return err
}

// publishBlock tells the ledger the claim's reclaim policy, writes the record of the block, and sets the claim's
// status.
func (p *pass) publishBlock(ctx context.Context) error {
	block := p.block
	// The claim's present policy counts, else the policy of its class when the block was bound. The ledger gets the policy
	// even while the pool cannot be named, because the workspace of the pool may be gone.
	if policy := cmp.Or(ledger.ReclaimPolicy(p.claim.Spec.ReclaimPolicy), block.Policy); policy != block.Policy {
		if err := p.r.Ledger.Retained.SetPolicy(ctx, block.Holder.Claim, policy); err != nil {
			return err
		}
		block.Policy = policy
	}
	poolRef, err := p.r.poolOf(block, p.decision.from.Cluster)
	if err != nil {
		return err
	}
	pool, _ := p.r.Ledger.Pools.Get(block.Pool)
	number := p.r.number(ctx, block, p.claim.Status.Number)
	want := record.New(p.claim, block, record.Place{Name: p.slot.Name, Pool: poolRef, Scope: record.Scope(pool)})
	want.Status.Number = number
	if err := p.slot.write(ctx, want); err != nil {
		return err
	}
	p.r.Answers.Forget(block.Holder)
	if outcome.Failing(p.claim.Status.Conditions) {
		p.report.tell(corev1.EventTypeNormal, ipamv1alpha1.ReasonReconciled, "bound to "+block.Prefix.String())
	}
	p.report.correct(block)
	succeeded(p.claim, block, poolRef, p.slot.Name)
	p.claim.Status.Number = number
	log.FromContext(ctx).Info("bound", "pool", poolRef.Name, "prefix", block.Prefix)
	return nil
}

// publishRange sets the status of a claim that holds a range.
func (p *pass) publishRange(ctx context.Context) error {
	poolRef, err := p.r.poolOf(p.block, p.decision.from.Cluster)
	if err != nil {
		return err
	}
	p.report.correct(p.block)
	succeeded(p.claim, p.block, poolRef, "")
	log.FromContext(ctx).Info("holds a range", "pool", poolRef.Name, "prefix", p.block.Prefix)
	return nil
}

// slot is the place of a claim's IPAllocation, as the cache shows it.
type slot struct {
	record.Slot
	claim   *ipamv1alpha1.IPClaim
	cluster ledger.ClusterName
	client  client.Client
	maker   *record.Maker
	memory  *memory
}

// own reports whether the record in the slot is the claim's own. If it is, the ledger has had a block for the claim:
// the block comes before the record.
func (s *slot) own() bool { return records(s.Record, s.claim) }

// write creates the claim's record, or updates the one that the cache shows.
func (s *slot) write(ctx context.Context, want *ipamv1alpha1.IPAllocation) error {
	if !s.own() {
		return s.create(ctx, want)
	}
	existing := s.Record
	updated := existing.DeepCopy()
	updated.Spec, updated.Status = want.Spec, want.Status
	updated.Status.Conditions = existing.DeepCopy().Status.Conditions
	if !equality.Semantic.DeepEqual(existing, updated) {
		outcome.Observe(updated.Status.Conditions, existing.Generation+1)
	}
	if err := patch.Snapshot(existing).PatchWhole(ctx, s.client, updated); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update IPAllocation %s: %w", want.Name, err)
	}
	return nil
}

// create creates the record of a claim that has none in the cache. It fails if the cache no longer shows the claim: the
// release of the claim may be over, and would have missed the record. If the claim is deleted later, its release finds
// the record. create returns errUnseen if another record has the name, and the cache may still come to show that
// record.
func (s *slot) create(ctx context.Context, want *ipamv1alpha1.IPAllocation) error {
	if err := shown(ctx, s.client, s.claim); err != nil {
		return fmt.Errorf("create no IPAllocation %s, as its claim is not there: %w", want.Name, err)
	}
	ctx, end := step(ctx, "create record")
	err := s.maker.Create(ctx, s.client, s.cluster, want)
	end(err)
	if apierrors.IsAlreadyExists(err) && s.memory.met(s.claim.UID, s.Slot) {
		return errUnseen
	}
	if err != nil {
		return fmt.Errorf("create IPAllocation %s: %w", want.Name, err)
	}
	s.memory.made(s.claim.UID, s.Slot)
	return nil
}

// dropFormer deletes the retained record of a former claim whose block this claim has now. The record cannot pass to
// this claim, because the claimRef of a retained record can never be set again. If the record has changed, or another
// record has its name now, dropFormer deletes nothing, and returns errUnseen. For if this claim is deleted meanwhile,
// its release retains the block by changing that very record.
func (s *slot) dropFormer(ctx context.Context) error {
	former := s.Record
	exactly := client.Preconditions{UID: new(former.UID), ResourceVersion: new(former.ResourceVersion)}
	err := s.client.Delete(ctx, former, exactly)
	if apierrors.IsConflict(err) {
		return errUnseen
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete IPAllocation %s of the former claim: %w", former.Name, err)
	}
	s.Record = nil
	return nil
}
