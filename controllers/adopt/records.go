package adopt

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// workers adopt side by side, and then share transactions.
const workers = 32

// adopt records every block of the lost pools that was published, and returns how many
// records there were. Allocations come first: only the system writes them. What a claim alone shows is
// adopted then, and takes nothing from anybody: see believe. Pools that leave, and that no allocation has a block of,
// come last.
func (w *world) adopt(ctx context.Context) (int, error) {
	recorded, err := w.adoptEach(ctx, &ipamv1alpha1.IPAllocationList{})
	if err == nil {
		w.vouchLate()
		err = w.enterLate(ctx, func(p *pool) bool { return p.vouched })
	}
	if err != nil {
		return 0, err
	}
	shown, err := w.adoptEach(ctx, &ipamv1alpha1.IPClaimList{})
	if err != nil {
		return 0, err
	}
	if err := w.doubted(ctx); err != nil {
		return 0, err
	}
	if err = w.believe(ctx); err == nil {
		err = w.enterLate(ctx, func(*pool) bool { return true })
	}
	if err == nil {
		err = w.believe(ctx)
	}
	if err == nil {
		err = w.decide(ctx)
	}
	records.Add(float64(recorded + shown))
	unplaced.Set(float64(w.left))
	return recorded + shown, err
}

// adoptEach records the blocks that the objects of one kind show, and returns how many there were.
func (w *world) adoptEach(ctx context.Context, list client.ObjectList) (adopted int, err error) {
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(workers) // and with it what is in memory
	err = w.Record.Each(each, list, func(cluster ledger.ClusterName, object client.Object) {
		r, ok := readRecord(cluster, object)
		if !ok {
			return
		}
		p, err := w.of(r)
		if err != nil {
			w.leave(ctx, r, err)
			return
		}
		if !p.lost && !p.late {
			return
		}
		adopted++
		if r.request.Pool = p.id; p.late {
			w.later = append(w.later, r)
			return
		}
		group.Go(func() error { return w.stick(p, w.take(each, p, r)) })
	})
	return adopted, errors.Join(group.Wait(), err)
}

// record is a block as it was published.
type record struct {
	pool    ipamv1alpha1.PoolRef
	request ledger.Request
	state   ledger.BlockState
	text    string // of the prefix
	fault   error  // why the text is none
	// claimed: a claim shows it.
	claimed bool
	// ranged: a claim shows it as a range, which it holds.
	ranged bool
	// scope has the objects within which the block is unique; of a claim, all objects that it names.
	scope ipamv1alpha1.Scope
}

// readRecord takes from an allocation or a claim what the ledger has to know; ok is
// false if no block was published in it.
func readRecord(cluster ledger.ClusterName, object client.Object) (r record, ok bool) {
	r.state = ledger.Bound
	name, uid := object.GetName(), object.GetUID()
	switch o := object.(type) {
	case *ipamv1alpha1.IPAllocation:
		name, _ = o.HeldBy()
		uid = o.AllocationID()
		r.pool, r.text, r.scope = o.Spec.PoolRef, o.Status.AllocatedCIDR, o.Spec.Scope
		r.request.Class, r.request.Policy = o.Spec.ClassName, ledger.ReclaimPolicy(o.Spec.ReclaimPolicy)
		if o.Spec.ClaimRef == nil {
			r.state, r.request.Until = ledger.Retained, o.ExpiresAt()
		}
	case *ipamv1alpha1.IPClaim:
		if o.Status.PoolRef == nil {
			return r, false
		}
		r.pool, r.text, r.scope = *o.Status.PoolRef, o.Status.AllocatedCIDR, o.Spec.Scope
		r.ranged = o.Spec.Target == ipamv1alpha1.TargetScopeRange
		r.request.Class, r.request.Policy = o.Status.ClassName, ledger.ReclaimPolicy(o.Spec.ReclaimPolicy)
		r.claimed, uid = true, types.UID(promise.IDOf(cluster, o))
	}
	r.request.Holder = ledger.Holder{Claim: ledger.ClaimID(uid), Cluster: cluster, Namespace: object.GetNamespace(), Name: name}
	r.request.Since = object.GetCreationTimestamp().Time
	if r.request.Exact, r.fault = netip.ParsePrefix(r.text); r.fault == nil && r.request.Exact != r.request.Exact.Masked() {
		r.fault = fmt.Errorf("%s is not the first address of a block", r.text)
	}
	return r, r.text != "" && uid != ""
}

// take adopts one block, or notes that a claim alone shows it, or that others have it. What can never be adopted keeps
// nothing frozen: it is said.
func (w *world) take(ctx context.Context, p *pool, r record) (err error) {
	if r.claimed {
		return w.promised(ctx, r)
	}
	r = r.within(r.scope)
	err = w.place(ctx, r)
	switch {
	case errors.Is(err, ledger.ErrOutOfRange):
		w.leave(ctx, r, err)
	case errors.Is(err, ledger.ErrInUse):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.rivals = append(w.rivals, rival{r, p})
	default:
		return err
	}
	return nil
}

// place puts the block of a record into the ledger.
func (a *Adopter) place(ctx context.Context, r record) error {
	block, err := a.Ledger.Recovery().Adopt(ctx, r.request, r.state)
	switch {
	case err != nil:
		return fmt.Errorf("adopt %s of claim %s/%s: %w", r.request.Exact, r.request.Holder.Namespace, r.request.Holder.Name, err)
	case r.state == ledger.Retained && block.State == ledger.Bound:
		// The ledger is older than the record: the claim was there.
		if _, _, err := a.Ledger.Retained().Retain(ctx, r.request.Holder.Claim, r.request.Until); err != nil {
			return fmt.Errorf("retain %s of claim %s/%s: %w", r.request.Exact, r.request.Holder.Namespace, r.request.Holder.Name, err)
		}
	}
	return nil
}
