package recover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// A block has one holder. A record is a rival if other holders have its addresses in the ledger.
//
//	another holder is a former claim of the same
//	name, and has exactly the block of the record    the block passes to the claim of the record
//	another holder is gone                           its block is released as usual; until then the pool is frozen
//	all exist, and one has no IPAllocation, or an
//	older one, or was in the ledger before the loss  they keep their blocks; the claim of the record is requeued
//	all exist, and have younger IPAllocations        the record gets the block; their claims are requeued

// errGiven: others have the addresses of the record, and keep them.
var errGiven = errors.New("others have these addresses in the ledger, or by an older record")

// decide decides which claims get the addresses of the rivals, the oldest rival first.
func (w *world) decide(ctx context.Context) error {
	if len(w.rivals) == 0 {
		return nil
	}
	made, err := w.recorded(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(w.rivals, older)
	for _, r := range w.rivals {
		if err := w.stick(r.of, w.contest(ctx, r, made)); err != nil {
			return err
		}
	}
	return nil
}

// older orders records by creation time, and then by claim ID.
func older(r, s record) int {
	return cmp.Or(r.request.Since.Compare(s.request.Since), cmp.Compare(r.request.Holder.Claim, s.request.Holder.Claim))
}

// recorded returns the records of the contested addresses, by claim: the rivals, and the IPAllocations of the present
// holders.
func (w *world) recorded(ctx context.Context) (map[ledger.ClaimID]record, error) {
	asked := map[ledger.ClaimID]bool{}
	for _, r := range w.rivals {
		others, err := w.others(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, b := range others {
			asked[b.Holder.Claim] = true
		}
	}
	made := map[ledger.ClaimID]record{}
	for _, r := range w.rivals {
		made[r.request.Holder.Claim] = r
	}
	note := func(cluster ledger.ClusterName, object client.Object) {
		if r := readRecord(cluster, object); asked[r.request.Holder.Claim] && r.published() {
			made[r.request.Holder.Claim] = r
		}
	}
	return made, w.Record.Each(ctx, &ipamv1alpha1.IPAllocationList{}, note)
}

// others returns the blocks of other holders that overlap the block of a record, without the cooling ones.
func (a *Adopter) others(ctx context.Context, r record) ([]ledger.Block, error) {
	blocks, err := a.Ledger.Pools().Overlapping(ctx, r.request.Pool, r.request.Exact)
	return slices.DeleteFunc(blocks, func(b ledger.Block) bool {
		return b.Holder.Claim == r.request.Holder.Claim || b.State == ledger.Cooling
	}), err
}

// contest decides which claim has the addresses of a record. If they are the block of a former claim that is gone, and
// the record is that of the later claim of the same name, the block passes to the later claim. If any other holder
// without a record is gone, contest returns an error, so that another pass follows when the holder's block is released.
func (w *world) contest(ctx context.Context, r record, made map[ledger.ClaimID]record) (err error) {
	others, err := w.others(ctx, r)
	if err != nil {
		return err
	}
	loses := false
	for _, b := range others {
		theirs, recorded := made[b.Holder.Claim]
		if !recorded {
			later, standErr := w.stands(ctx, b)
			if later != nil && live.Is(later, r.request.Holder) && promise.Follows(b, r.request.Holder) &&
				b.Prefix == r.request.Exact && b.Pool == r.request.Pool {
				return w.handOver(ctx, b, r.request)
			}
			err = errors.Join(err, standErr)
		}
		loses = loses || !recorded || !b.Adopted || older(theirs, r) < 0
	}
	switch {
	case err != nil:
		return err
	case loses:
		w.Doubt(r.request.Holder)
		w.leave(ctx, r, errGiven)
		return nil
	}
	for _, b := range others {
		if err := w.Ledger.Release(ctx, b.Holder.Claim); err != nil {
			return fmt.Errorf("take %s from claim %s/%s, whose record is younger: %w",
				b.Prefix, b.Holder.Namespace, b.Holder.Name, err)
		}
		w.Doubt(b.Holder)
	}
	return w.place(ctx, r)
}

// handOver passes the block of a former claim to the later claim of the same name, whose IPAllocation shows the block.
func (a *Adopter) handOver(ctx context.Context, b ledger.Block, later ledger.Request) error {
	_, err := a.Ledger.Retained().HandOver(ctx, b, allocator.Successor{Holder: later.Holder, Policy: later.Policy})
	if err != nil {
		return fmt.Errorf("give %s to the later claim %s/%s: %w", b.Prefix, later.Holder.Namespace, later.Holder.Name, err)
	}
	return nil
}

// stands checks the holder of a block that has no IPAllocation. If no server shows the holder, stands hints at it, and
// returns an error. later is the object that has the holder's name now, or nil.
func (a *Adopter) stands(ctx context.Context, b ledger.Block) (later client.Object, err error) {
	answer, err := a.Record.Holder(ctx, b.Holder)
	if err != nil || answer.Verdict == live.Alive {
		return nil, err
	}
	a.Suspect(b.Holder)
	return answer.Object, fmt.Errorf("%s is in the ledger as that of claim %s/%s, which no server shows, "+
		"and is released first", b.Prefix, b.Holder.Namespace, b.Holder.Name)
}
