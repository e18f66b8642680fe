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

// read reads the facts about a holder. If a server says that a claim is gone, the facts include the claim's record, and
// whether a later claim of the same name shows the block.
func (c *Controller) read(ctx context.Context, s *suspect) (f facts, err error) {
	now := c.Clock.Now()
	young := c.young(s, now) // as it was before a server looked for the claim: the answers of a slow kcp come long after
	if f.verdict, err = c.ask(ctx, s); err != nil {
		return f, err
	}
	if s.workspace != nil && s.ranged == "" {
		if f.record, err = c.findRecord(ctx, s); err != nil {
			return f, err
		}
		if f.record == ownRecord && young { // between the two reads the claim may have been stored, and then its record
			if f.verdict, err = c.ask(ctx, s); err != nil {
				return f, err
			}
		}
	}
	shown, err := c.shown(ctx, s)
	f.kept = shown || f.record != ownRecord && f.record != strayRecord && young
	f.held = s.holding(c.seen(s.Claim), now)
	if err == nil && f.held == nothing && own.has(int(f.record)) {
		if comesBack, err := c.comesBack(ctx, s); err != nil || comesBack {
			f.verdict = unknown
			return f, err
		}
	}
	if err == nil && f.verdict == unwitnessed && f.record == ownRecord && (f.held == bound || f.held == keeping) {
		f.record, err = c.witness(ctx, s.workspace, s.Holder, s.slot.Record, f.held)
	}
	return f, err
}

// comesBack reports whether recovery may still give a holder its block back, by the holder's record, or has just done
// so. Recovery may end while HasAll runs. So the ledger is read again afterwards.
func (c *Controller) comesBack(ctx context.Context, s *suspect) (bool, error) {
	if all, err := c.HasAll(ctx, s.Cluster, s.slot.Record); err != nil || !all {
		return true, err
	}
	_, held, err := c.Ledger.Blocks.Lookup(ctx, s.Claim)
	return held, err
}

// young reports whether the CREATE that was answered with the holder's block or range may still succeed: it is recent,
// nobody has seen its claim, and it is not known to have failed. A retained block is never young: its claim was stored.
func (c *Controller) young(s *suspect, now time.Time) bool {
	if s.block.State == ledger.Retained || c.seen(s.Claim).claim != nil ||
		!promise.Young(ledger.Block{Holder: s.Holder, BoundAt: s.since}, now) {
		return false
	}
	_, failed := c.Answers.Untold(s.Holder)
	return !failed
}

// shown reports whether a later claim of the holder's name has the holder's block or range: its status shows the block,
// or the block's record names it. Such a claim has lost its allocation ID, and its reconcile takes the block over.
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
	if ranged { // a range of another scope may have the same prefix
		_, held := c.ranges.ledger.Held(promise.IDOf(s.Cluster, s.later))
		return !held, nil
	}
	own, held, err := c.Ledger.Blocks.Lookup(ctx, promise.IDOf(s.Cluster, s.later))
	if err != nil {
		return false, fmt.Errorf("look up what %s/%s has: %w", s.Namespace, s.Name, err)
	}
	return !held || own.Prefix != s.prefix, nil // a block of another address domain may have the same prefix
}

// names reports whether the status of a claim may name this pool. It is true if the status names no pool, or if the
// ledger does not have the pool. A status that names another pool does not count: before the ledger was restored, the
// claim may have had the same addresses from that other pool, and it may wait for them now.
func (c *Controller) names(claim *ipamv1alpha1.IPClaim, id ledger.PoolID) bool {
	if of, is := ledger.AddressSpaceOf(id); is {
		id = of
	}
	pool, known := c.Ledger.Pools.Get(id)
	return !known || claim.Status.PoolRef == nil || claim.Status.PoolRef.Name == pool.Name
}

// ask finds out whether the holder is gone. If the caches show its workspace as bound nowhere, ask asks the censuses
// first, unless only a record may be left of the holder ([Controller.leftover]). If the hint brought the holder's
// record, the deletion of that record may prove that the holder is gone ([Controller.goneByRecord]). Otherwise ask
// reads the holder live. If a server says that the holder is gone, s gets a client of the workspace at that server.
func (c *Controller) ask(ctx context.Context, s *suspect) (verdict, error) {
	if !c.Bound(s.Cluster) && !c.leftover(s) {
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

// leftover reports whether only a record may be left of the holder: the ledger has nothing of it, and it was missed. A
// record without a claim brings such a hint. The record may be newer than the censuses that lack the workspace: its
// write was under way when the binding went, and kcp stored it under the next binding.
func (c *Controller) leftover(s *suspect) bool { return !s.known && c.seen(s.Claim).missed }

// askCensus asks the censuses whether the holder's workspace is bound nowhere. If nobody saw the deletion of the
// holder, it believes them only if the workspace's binding was seen to go: in a kcp that was restored from a backup,
// newer workspaces are bound nowhere, as if they had left.
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

// goneLive returns the verdict if a server says that the holder is gone. For a claim it notes in s what that server
// shows of the workspace.
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
	// If the claim is older than the present binding of its workspace, it went with a former binding, whatever its
	// policy. Both times are by kcp's clock.
	older := seen.claim != nil && seen.claim.CreationTimestamp.Time.Before(answer.Served)
	switch {
	case c.unseen(s) && (!older || !c.departedOnce(s.Cluster)):
		return unwitnessed
	case older:
		return left
	}
	return gone
}

// unseen reports whether nobody saw the deletion of the holder: a list left the holder out, or a request asks about a
// holder without a hint.
func (c *Controller) unseen(s *suspect) bool {
	seen := c.seen(s.Claim)
	return seen.missed || s.origin == requested && seen.number == 0
}

// relisting is how long a cache may show claims that a restored kcp lacks. After an error, a client lists again within
// a minute.
const relisting = 2 * time.Minute

// witness reports whether the record of a holder whose deletion nobody saw counts, as ownRecord, or was stored for a
// claim that its server did not have, as strayRecord. A reconcile asks no server before it stores the record of a new
// claim. So the claim may have been deleted before, or the server may be a kcp that was restored and never knew the
// claim. The server tells whether it had the claim when the record was stored, however old the record is: a pass may
// come long after. If the server cannot tell, the record of a block that is to be retained counts, and so does one that
// is older than relisting.
func (c *Controller) witness(
	ctx context.Context, in client.Client, h ledger.Holder, own *ipamv1alpha1.IPAllocation, has held,
) (recorded, error) {
	at := c.Clock.Now()
	if seen := c.seen(h.Claim); seen.missed {
		at = seen.at
	}
	existed, known, err := c.Oracle.Existed(ctx, in, h, own.ResourceVersion)
	switch {
	case err != nil:
		return ownRecord, fmt.Errorf("ask for %s/%s as it was when its record was stored: %w", h.Namespace, h.Name, err)
	case existed:
		return ownRecord, nil
	case known && !changed(own):
		return strayRecord, nil
	case has == keeping, own.CreationTimestamp.Add(relisting).Before(at):
		return ownRecord, nil
	}
	return strayRecord, nil
}

// changed reports whether a record was changed since it was stored, so that nobody knows the revision of the CREATE.
func changed(own *ipamv1alpha1.IPAllocation) bool {
	return own.Generation > 1 || len(own.ManagedFields) > 1
}

// goneByRecord tries to prove that the claim is gone, by two requests to one server: a read of the claim, and the
// deletion of its record. It does so only if the hint brought the record, and if the table would then delete the record
// and free the block. If it reports false, nothing is proved, and the caller asks the servers for the holder.
//
// The proof is that the server deletes exactly the record that was seen, by UID and resourceVersion. So the server
// serves the workspace. The server's state is newer than the record, and the record is newer than the claim: the server
// has known the claim. So its answer just before, that there is no such claim, counts.
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

// findRecord finds the slot of the claim's record, and classifies the record in it. A record that came with the hint is
// not read again: each write of it names the version that was seen.
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

// recorded classifies the record in the slot of s.
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

// skew is how far the clocks of kcp's processes may be apart. strays counts a claim as older than a binding only if the
// claim is older by more than that.
const skew = 2 * time.Second

// strays reports whether the holder's own record was stored under the present binding of the workspace, although the
// claim went with a former binding: a reconcile had read the claim from a stale cache. kcp does not delete such a
// record. last is the claim as last seen.
func (s *suspect) strays(own *ipamv1alpha1.IPAllocation, last *ipamv1alpha1.IPClaim) bool {
	return last != nil && last.CreationTimestamp.Add(skew).Before(s.served) && !own.CreationTimestamp.Time.Before(s.served)
}

// kindOf classifies the holder's own record: it names a claim, or it is retained.
func kindOf(own *ipamv1alpha1.IPAllocation) recorded {
	if own.Spec.ClaimRef == nil {
		return retainedRecord
	}
	return ownRecord
}

// holding classifies what the holder has. The reclaim policy of the claim as last seen counts.
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
