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

// workers adopt side by side, and then share transactions.
const workers = 32

// adopt records every block of the lost pools that was published. Allocations come first: only the system writes them.
// A block that a claim alone shows is adopted then, and takes nothing from anybody: see believe. Pools that leave, and
// that no allocation has a block of, come last.
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

// audit reads the ledger, which the records are joined with.
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

// adoptEach records the blocks that the objects of one kind show.
func (w *world) adoptEach(ctx context.Context, list client.ObjectList) error {
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(workers) // and with it what is in memory
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

// take adopts one block that the ledger lacks, or notes that a claim alone shows it, or that others have it. A record
// that can never be adopted keeps nothing frozen: it is said.
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

// amend brings a bound block in line with its record, if the ledger is older: the claim had another reclaim policy, or
// was there, and the block is retained by now.
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

// place puts the block of a record into the ledger.
func (a *Adopter) place(ctx context.Context, r record) error {
	held, err := a.Ledger.Recovery().Adopt(ctx, r.request, r.state)
	if err != nil {
		return fmt.Errorf("adopt %s of claim %s/%s: %w",
			r.request.Exact, r.request.Holder.Namespace, r.request.Holder.Name, err)
	}
	return a.amend(ctx, r, held)
}
