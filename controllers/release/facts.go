package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

// read reads the facts about a holder. Where a server says that a claim is gone, they include its record, and whether a
// later claim of its name shows its block.
func (c *Controller) read(ctx context.Context, s *suspect) (f facts, err error) {
	if f.verdict, err = c.ask(ctx, s); err != nil {
		return f, err
	}
	now := c.Clock.Now()
	if s.workspace != nil && s.ranged == "" {
		if f.record, err = c.findRecord(ctx, s); err != nil {
			return f, err
		}
	}
	shown, err := c.shown(ctx, s)
	f.kept = shown || f.record != ownRecord && f.record != strayRecord && c.young(s, now)
	f.held = s.holding(c.seen(s.Claim), now)
	return f, err
}

// young reports whether a CREATE that was answered with the holder's block or range may still succeed, as far as is
// known: nobody has seen its claim. The block of a claim that was never stored is not retained.
func (c *Controller) young(s *suspect, now time.Time) bool {
	if s.block.State == ledger.Retained || c.seen(s.Claim).claim != nil ||
		!promise.Young(ledger.Block{Holder: s.Holder, BoundAt: s.since}, now) {
		return false
	}
	_, failed := c.Answers.Untold(s.Holder)
	return !failed
}

// shown reports whether the claim that has the holder's name now shows the holder's block, or has its record: it has
// lost its allocation ID. It gets the block by its reconcile.
func (c *Controller) shown(ctx context.Context, s *suspect) (bool, error) {
	if s.later == nil || !s.known {
		return false, nil
	}
	if r := s.slot.Record; r != nil && r.Spec.ClaimRef != nil && r.Spec.ClaimRef.UID == s.later.UID &&
		r.Spec.ClaimRef.AllocationID == types.UID(s.Claim) {
		return true, nil
	}
	ranged := s.later.Spec.Target == ipamv1alpha1.TargetScopeRange
	if s.later.Status.AllocatedCIDR != s.prefix.String() || ranged != (s.ranged != "") ||
		!c.names(s.later, cmp.Or(s.ranged, s.block.Pool)) {
		return false, nil
	}
	if ranged { // of another scope, a range may have the same prefix
		_, held := c.ranges.ledger.Held(promise.IDOf(s.Cluster, s.later))
		return !held, nil
	}
	own, held, err := c.Ledger.Blocks.Lookup(ctx, promise.IDOf(s.Cluster, s.later))
	if err != nil {
		return false, fmt.Errorf("look up what %s/%s has: %w", s.Namespace, s.Name, err)
	}
	return !held || own.Prefix != s.prefix, nil // one of another address domain may have the same prefix
}

// names reports whether a claim that shows a block or a range names its pool, as far as is known. In another one, the
// claim may wait for just these addresses, which it had before the ledger was restored.
func (c *Controller) names(claim *ipamv1alpha1.IPClaim, id ledger.PoolID) bool {
	if of, is := ledger.AddressSpaceOf(id); is {
		id = of
	}
	pool, known := c.Ledger.Pools.Get(id)
	return !known || claim.Status.PoolRef == nil || claim.Status.PoolRef.Name == pool.Name
}

// ask asks for the holder: by censuses if the caches show its workspace bound nowhere, by the deletion of its record
// if that was seen, else live. Where a server says that it is gone, the suspect gets a client of its workspace there.
func (c *Controller) ask(ctx context.Context, s *suspect) (verdict, error) {
	if !c.Bound(s.Cluster) {
		then, departed := c.departure(s.Cluster)
		v, err := c.askCensus(ctx, s, then)
		if v != unknown || errors.Is(err, errUncounted) || err != nil && departed {
			return v, err
		}
	}
	if c.goneByRecord(ctx, s) {
		return gone, nil
	}
	asked := c.Clock.Now()
	answer, err := c.Oracle.Holder(ctx, s.Holder)
	if err != nil {
		return unknown, fmt.Errorf("confirm that %s/%s is gone: %w", s.Namespace, s.Name, err)
	}
	v := unknown
	switch answer.Verdict {
	case live.Alive:
		c.served(s.Cluster, asked)
		v = alive
	case live.Gone:
		c.served(s.Cluster, asked)
		v = c.goneLive(ctx, s, answer)
	case live.Unbound, live.NoEndpoint:
		v, err = c.askCensus(ctx, s, asked)
	case live.Unknown:
	}
	return v, err
}

// askCensus asks whether the holder's workspace is bound nowhere. In a kcp that was restored from a backup, the newer
// workspaces are bound nowhere, as if they had left; so a claim that a list left out needs a binding that was seen to
// go.
func (c *Controller) askCensus(ctx context.Context, s *suspect, then time.Time) (verdict, error) {
	if c.unseen(s) && !c.HasDeparted(s.Cluster) {
		return unwitnessed, nil
	}
	absent, err := c.absent(ctx, s, then)
	if err != nil || !absent {
		return unknown, err
	}
	return left, nil
}

// goneLive returns the verdict where a server says that the holder is gone.
func (c *Controller) goneLive(ctx context.Context, s *suspect, answer live.Answer) verdict {
	seen := c.seen(s.Claim)
	if seen.outdated(answer.Revision) {
		log.FromContext(ctx).Info("the server is older than the object that it does not know; was it restored from a backup?",
			"server", answer.Revision)
		return unknown
	}
	if s.Namespace == "" && c.unseen(s) {
		return unwitnessed
	}
	if s.Namespace == "" {
		return gone
	}
	s.workspace, s.served = answer.Client, answer.Served
	s.later, _ = answer.Object.(*ipamv1alpha1.IPClaim)
	// A claim that is older than the binding that its workspace has now went with a former one, whatever its policy.
	// Both times are kcp's.
	older := seen.claim != nil && seen.claim.CreationTimestamp.Time.Before(answer.Served)
	switch {
	case c.unseen(s) && (!older || !c.departedOnce(s.Cluster)):
		return unwitnessed
	case older:
		return left
	}
	return gone
}

// unseen reports whether nobody saw the deletion of the holder: a list left it out, or a request asks about it that no
// hint was given about.
func (c *Controller) unseen(s *suspect) bool {
	seen := c.seen(s.Claim)
	return seen.missed || s.origin == requested && seen.number == 0
}

// goneByRecord reports whether the claim is gone, where it and its record were seen as they were last, and the block is
// to be freed. It sends two requests to one server: a read of the claim, and the deletion of its record. If they prove
// nothing, the caller asks for the holder.
//
// The proof is that the server deletes exactly the record that was seen, by UID and resourceVersion. So
// it serves the workspace, and has its state from after the record was written, which was after the claim
// was created. Such a server has known the claim, and its answer just before, that there is none, counts.
func (c *Controller) goneByRecord(ctx context.Context, s *suspect) bool {
	now, seen := c.Clock.Now(), c.seen(s.Claim)
	if seen.record == nil || s.block.State != ledger.Bound {
		return false
	}
	f := facts{verdict: gone, held: s.holding(seen, now), record: kindOf(seen.record)}
	if decide(f) != (action{drop: true, then: free}) {
		return false
	}
	workspace, lacking, err := c.Oracle.Lacks(ctx, s.Holder)
	if err != nil || !lacking {
		log.FromContext(ctx).V(1).Info("the server of the workspace does not say that the claim is gone", "error", err)
		return false
	}
	if err := workspace.Delete(ctx, seen.record.DeepCopy(), exactly(seen.record)); err != nil {
		log.FromContext(ctx).V(1).Info("the server has no such record", "record", seen.record.Name, "error", err)
		c.forgetRecord(s.Claim)
		return false
	}
	return true
}

// findRecord finds the place of the claim's record, and the kind of record there. One that was seen with the deletion
// of its claim is not read: a write names the version that was seen.
func (c *Controller) findRecord(ctx context.Context, s *suspect) (_ recorded, err error) {
	if seen := c.seen(s.Claim).record; seen != nil {
		s.slot = record.Slot{Name: seen.Name, Record: seen.DeepCopy()}
		return c.recorded(ctx, s)
	}
	s.slot, err = record.Find(ctx, s.workspace, client.ObjectKey{Namespace: s.Namespace, Name: s.Name})
	if err != nil {
		return noRecord, err
	}
	return c.recorded(ctx, s)
}

// recorded finds the kind of record in the place of the claim's.
func (c *Controller) recorded(ctx context.Context, s *suspect) (recorded, error) {
	found := s.slot.Record
	if found == nil {
		return noRecord, nil
	}
	own, seen := found.AllocationID() == types.UID(s.Claim), c.seen(s.Claim)
	if own && (seen.precedes(found) || s.strays(found, seen.claim)) {
		return strayRecord, nil
	}
	if own {
		return kindOf(found), nil
	}
	former, err := c.promises.Superseded(ctx, found, s.block)
	if former {
		return formerRecord, err
	}
	return otherRecord, err
}

// skew is by how much the clocks of kcp's processes may differ. Where it decides about a record, seconds do not.
const skew = 2 * time.Second

// strays reports whether the holder's own record was stored under the binding that the workspace has now, while the
// claim went with a former one: the reconcile had the claim from a cache that lagged behind. kcp deletes no such
// record.
func (s *suspect) strays(own *ipamv1alpha1.IPAllocation, last *ipamv1alpha1.IPClaim) bool {
	return last != nil && last.CreationTimestamp.Add(skew).Before(s.served) && !own.CreationTimestamp.Time.Before(s.served)
}

// kindOf says whether the holder's own record has a claim.
func kindOf(own *ipamv1alpha1.IPAllocation) recorded {
	if own.Spec.ClaimRef == nil {
		return retainedRecord
	}
	return ownRecord
}

// holding classes the block of the holder, by the claim as last seen.
func (s *suspect) holding(seen deletion, now time.Time) (h held) {
	until := s.block.Until
	switch {
	case s.Namespace == "":
		h = aPool
	case s.ranged != "":
		h = aRange
	case !s.held:
		h = nothing
	case s.block.State == ledger.Retained && !until.IsZero() && !now.Before(until):
		h = expired
	case s.block.State == ledger.Retained:
		h = retained
	case seen.policy(s.block) != ipamv1alpha1.ReclaimRetain:
		h = bound
	default:
		h = keeping
	}
	return h
}
