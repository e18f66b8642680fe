package release

import (
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
		if f.record, err = c.findRecord(ctx, s, f.verdict); err != nil {
			return f, err
		}
	}
	if s.ranged != "" {
		f.inFlight, f.later = s.promised(now)
	}
	if s.held {
		f.inFlight = promise.InFlight(s.block, now)
		f.later, err = c.promises.Share(ctx, s.block, s.later)
	}
	f.held = s.holding(c.seen(s.Claim), now)
	return f, err
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
	f := facts{verdict: gone, held: s.holding(seen, now), record: kindOf(seen.record), inFlight: promise.InFlight(s.block, now)}
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
func (c *Controller) findRecord(ctx context.Context, s *suspect, v verdict) (_ recorded, err error) {
	if seen := c.seen(s.Claim).record; seen != nil {
		s.slot = record.Slot{Name: seen.Name, Record: seen.DeepCopy()}
	} else if s.slot, err = record.Find(ctx, s.workspace, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}); err == nil && v != unwitnessed {
		err = c.takeRetained(ctx, s)
	}
	if err != nil {
		return noRecord, err
	}
	return c.recorded(ctx, s)
}

// takeRetained gives a claim that has nothing in the ledger the retained block of a former claim of its name, if its
// CREATE was answered with that. So the block is released or retained as any other. It must not be called while nothing
// shows that the server ever knew the claim: the block is to stay as it is.
func (c *Controller) takeRetained(ctx context.Context, s *suspect) error {
	last := c.seen(s.Claim).shown()
	if s.held || last == nil || s.later != nil && s.later.Status.AllocatedCIDR == last.Status.AllocatedCIDR {
		return nil
	}
	block, ok, err := c.promises.Retained(ctx, s.Cluster, s.slot.Record, last)
	if err != nil || !ok {
		return err
	}
	given, err := c.promises.Give(ctx, block, last)
	if errors.Is(err, ledger.ErrChanged) {
		return nil
	}
	if err == nil {
		s.holds(given)
	}
	return err
}

// recorded finds the kind of record in the place of the claim's.
func (c *Controller) recorded(ctx context.Context, s *suspect) (recorded, error) {
	found := s.slot.Record
	if found == nil {
		return noRecord, nil
	}
	_, uid := found.HeldBy()
	own, seen := uid == types.UID(s.Claim), c.seen(s.Claim)
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
	case promise.Is(s.Claim):
		h = reserved
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
