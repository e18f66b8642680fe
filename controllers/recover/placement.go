package recover

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// workers is how many blocks are adopted concurrently. Concurrent adoptions share transactions.
const workers = 32

// adopt writes every published block of the lost pools to the ledger. IPAllocations come first, because only the system
// writes them. Then come the blocks that a claim alone shows, if nobody has their addresses: see believe. Pools that
// are being deleted, and have no block in an IPAllocation, come last.
func (w *world) adopt(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		w.enter, w.audit, w.adoptAllocations, w.enterVouched, w.adoptClaims, w.doubted,
		w.believe, w.enterRest, w.believe, w.decide,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	records.Add(float64(w.adopted))
	unplaced.Set(float64(w.left))
	return nil
}

// audit reads the ledger into w.books, with which the records are joined.
func (w *world) audit(ctx context.Context) (err error) {
	w.books, err = audit(ctx, w.Books, w.clock.Now())
	return err
}

func (w *world) adoptAllocations(ctx context.Context) error {
	return w.adoptEach(ctx, &ipamv1alpha1.IPAllocationList{})
}

func (w *world) adoptClaims(ctx context.Context) error {
	return w.adoptEach(ctx, &ipamv1alpha1.IPClaimList{})
}

// adoptEach adopts the blocks that the objects of one kind show in lost pools; see take. It keeps the records of late
// pools for enterLate.
func (w *world) adoptEach(ctx context.Context, list client.ObjectList) error {
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(workers) // which limits the objects in memory, too
	err := w.Record.Each(each, list, func(cluster ledger.ClusterName, object client.Object) {
		r := w.books.join(readRecord(cluster, object))
		if !r.published() {
			return
		}
		var err error
		switch r.of, err = w.of(r); {
		case err != nil && r.lacks():
			w.leave(ctx, r, err)
			return
		case err != nil, !r.of.lost && !r.of.late:
			return
		}
		w.adopted++
		if r.request.Pool = r.of.id; r.of.late {
			w.later = append(w.later, r)
			return
		}
		group.Go(func() error { return w.stick(r.of, w.take(each, r)) })
	})
	return errors.Join(group.Wait(), err)
}

// take adopts the block of an IPAllocation, or amends the block that the ledger has for it. If others have the
// addresses, take notes the IPAllocation for decide. If the record is a claim, take only notes it, for believe. An
// IPAllocation whose block lies outside the pool is never adopted: it is logged, and keeps no pool frozen.
func (w *world) take(ctx context.Context, r record) error {
	switch {
	case r.claimed:
		return w.promised(ctx, r)
	case !r.lacks():
		return w.amend(ctx, r, r.held.Block)
	}
	r = r.within(r.scope)
	err := w.place(ctx, r)
	switch {
	case errors.Is(err, ledger.ErrOutOfRange):
		w.leave(ctx, r, err)
	case errors.Is(err, ledger.ErrInUse):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.rivals = append(w.rivals, r)
	default:
		return err
	}
	return nil
}

// amend updates a bound block of a restored ledger from its IPAllocation: it sets the reclaim policy, and retains the
// block if the claim was deleted after the copy was taken.
func (a *Adopter) amend(ctx context.Context, r record, held ledger.Block) error {
	if held.State != ledger.Bound {
		return nil
	}
	if policy := r.request.Policy; policy != "" && policy != held.Policy {
		if err := a.Ledger.Retained().SetPolicy(ctx, r.request.Holder.Claim, policy); err != nil {
			return fmt.Errorf("have %s of claim %s/%s follow its reclaim policy %s: %w",
				r.request.Exact, r.request.Holder.Namespace, r.request.Holder.Name, policy, err)
		}
	}
	if r.state != ledger.Retained {
		return nil
	}
	if _, _, err := a.Ledger.Retained().Retain(ctx, r.request.Holder.Claim, r.request.Until); err != nil {
		return fmt.Errorf("retain %s of claim %s/%s: %w",
			r.request.Exact, r.request.Holder.Namespace, r.request.Holder.Name, err)
	}
	return nil
}

// place adopts the block of a record, and then amends it.
func (a *Adopter) place(ctx context.Context, r record) error {
	held, err := a.Ledger.Recovery().Adopt(ctx, r.request, r.state)
	if err != nil {
		return fmt.Errorf("adopt %s of claim %s/%s: %w",
			r.request.Exact, r.request.Holder.Namespace, r.request.Holder.Name, err)
	}
	return a.amend(ctx, r, held)
}
