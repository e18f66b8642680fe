package recover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// enter restores the lost pools as their IPPools show them: first all roots; then the children that are not being
// deleted, each after its parent. The other children stay late: see enterLate.
func (w *world) enter(ctx context.Context) error {
	for _, p := range w.lost {
		if p.late = p.parent != nil; p.late {
			continue
		}
		if err := w.stick(p, w.register(ctx, p)); err != nil {
			return fmt.Errorf("pool %s of %s: %w", p.name, p.owner.Path, err)
		}
		p.lost = p.stuck == nil
	}
	if err := w.vouch(ctx); err != nil {
		return err
	}
	_, err := w.enterChildren(ctx, func(p *pool) bool { return !p.leaves })
	return err
}

// enterVouched restores the late children that have a block in an IPAllocation. All IPAllocations were read before.
func (w *world) enterVouched(ctx context.Context) error {
	for _, r := range w.later {
		w.vouchFor(r.of, r)
	}
	return w.enterLate(ctx, func(p *pool) bool { return p.vouched })
}

// enterRest restores the remaining late children, after believe has adopted the blocks of claims.
func (w *world) enterRest(ctx context.Context) error {
	return w.enterLate(ctx, func(*pool) bool { return true })
}

// enterLate restores the selected late children: pools that are being deleted, and the pools below them. The ledger may
// have retired such a pool before the loss, and allocated its addresses to other holders. These holders keep the
// addresses, because the IPAllocations of all other pools are adopted first. If no IPAllocation shows a block of a late
// child, or of a pool below it, the child is restored only after the function believe has adopted the blocks of claims.
// A child whose parent is gone is stuck, and takes no addresses from any pool.
func (w *world) enterLate(ctx context.Context, these func(*pool) bool) error {
	orphans, err := w.enterChildren(ctx, these)
	if err != nil {
		return err
	}
	for _, p := range orphans {
		p.late, p.stuck = false, errors.New("its parent is gone, or is stuck itself")
		if of := p.parent.ProjectRef; of != nil {
			p.stuck = &nameless{path: of.Name, error: p.stuck}
		}
		if err := w.claimed(p); err != nil {
			return err
		}
	}
	later := w.later
	w.later = nil
	for _, r := range later {
		switch {
		case r.of.late:
			w.later = append(w.later, r)
		case r.of.lost:
			if err := w.stick(r.of, w.take(ctx, r)); err != nil {
				return err
			}
		case !r.claimed && r.state == ledger.Bound:
			w.Doubt(r.request.Holder) // the claim may make the pool and those above it again
		}
	}
	return nil
}

// enterChildren restores the selected late children, each after its parent, and returns those whose parent is not in
// the ledger.
func (w *world) enterChildren(ctx context.Context, these func(*pool) bool) (orphans []*pool, err error) {
	for _, p := range w.lost {
		if p.late && these(p) {
			orphans = append(orphans, p)
		}
	}
	for before := -1; before != len(orphans); {
		before = len(orphans)
		for _, p := range orphans {
			parent := w.above(p)
			if parent == nil {
				continue
			}
			if _, known := w.Ledger.Pools().Get(parent.id); !known {
				continue
			}
			err := w.restore(ctx, p, parent)
			if err != nil {
				p.lacking = parent.space
			}
			if err := w.stick(p, err); err != nil {
				return nil, fmt.Errorf("pool %s of %s: %w", p.name, p.owner.Path, err)
			}
			p.late, p.lost = false, p.stuck == nil
		}
		orphans = slices.DeleteFunc(orphans, func(p *pool) bool { return !p.late })
	}
	return orphans, nil
}

// vouchFor marks a pool as vouched if a record shows a block of it. It also marks the pools above, as long as each
// contains the block.
func (w *world) vouchFor(p *pool, r record) {
	for p != nil && !p.vouched && contains(p.cidr, r.request.Exact) {
		p.vouched = true
		p = w.above(p)
	}
}

// claimed handles a child whose parent reference fits several pools. It keeps frozen each of these pools that overlaps
// the child's CIDR, because it may be the parent.
func (w *world) claimed(child *pool) error {
	meant := w.meant(child.owner.Cluster, *child.parent)
	if len(meant) < 2 {
		return nil
	}
	for _, p := range meant {
		if !p.cidr.Overlaps(child.cidr) {
			continue
		}
		why := fmt.Errorf("its child %s of workspace %s may be that of another workspace, which shows the same path",
			child.name, child.owner.Cluster)
		if err := w.stick(p, &nameless{path: child.parent.ProjectRef.Name, error: why}); err != nil {
			return err
		}
	}
	return nil
}

// register registers a lost root pool at the CIDR and in the space that its IPPool shows, and freezes it.
func (w *world) register(ctx context.Context, p *pool) error {
	if known, ok := w.Ledger.Pools().Get(p.id); ok && known.Space != p.space {
		// After the copy of the ledger was taken, the pool moved to another address domain, while it was empty.
		if err := w.Ledger.Pools().Retire(ctx, p.id); err != nil {
			return fmt.Errorf("move it to its address domain: %w", err)
		}
	}
	_, err := w.Ledger.Pools().Register(ctx, ledger.Pool{
		ID: p.id, Cluster: p.owner.Cluster, Name: p.name, CIDR: p.cidr, Space: p.space, Frozen: true,
	})
	overlap, overlaps := errors.AsType[*ledger.OverlapError](err)
	if overlaps && !w.ids[overlap.With.ID] {
		return errors.Join(err, w.displace(ctx, overlap.With))
	}
	if overlaps && p.leaves {
		return errRetired
	}
	if err != nil {
		return err
	}
	// the restored ledger may have had the pool already, not frozen
	return w.Ledger.Recovery().Freeze(ctx, p.id, time.Time{})
}

// displace retires a pool that is in the restored ledger, and whose IPPool was deleted after the copy was taken. If the
// pool has blocks, displace drains it instead. It does nothing unless a live read confirms that the IPPool is gone.
func (a *Adopter) displace(ctx context.Context, old ledger.Pool) error {
	answer, err := a.Record.Holder(ctx, ledger.Holder{Claim: ledger.ClaimID(old.ID), Cluster: old.Cluster, Name: old.Name})
	if err != nil || answer.Verdict != live.Gone {
		return err
	}
	if err = a.Ledger.Pools().Retire(ctx, old.ID); errors.Is(err, ledger.ErrPoolInUse) {
		return a.Ledger.Pools().Drain(ctx, old.ID)
	}
	return err
}

// restore puts a child into the ledger at the CIDR that its IPPool shows. If the ledger has the child elsewhere,
// restore retires it there first. It carves a missing child only if an IPAllocation vouches for the child, or the
// parent admits the child.
func (w *world) restore(ctx context.Context, p, parent *pool) error {
	if known, ok := w.Ledger.Pools().Get(p.id); ok &&
		(p.derived == nil || known.CIDR == p.cidr && known.Parent == p.carvedIn().In(parent.id)) {
		return w.reopen(ctx, p, known)
	} else if ok {
		if err := w.clear(ctx, known); err != nil {
			return err
		}
	}
	if !p.vouched && !p.invited(parent, w.Directory.Platform()) {
		return w.refuse(p)
	}
	return w.carve(ctx, p, parent)
}

// carve carves a child from its parent. If another holder has addresses of the child, carve hints at that holder, and
// fails. But if the child is being deleted, it counts as retired, and is stuck.
func (a *Adopter) carve(ctx context.Context, p, parent *pool) error {
	in := p.carvedIn()
	request := ledger.Request{
		Pool: in.In(parent.id), Begins: in.Begins(parent.id), Exact: p.cidr, Since: p.made,
		Class: p.object.Spec.ParentClassName, Slice: p.slice == parent.id,
		Holder: ledger.Holder{Claim: ledger.ClaimID(p.id), Cluster: p.tenant(), Name: p.name},
	}
	child := ledger.Pool{ID: p.id, Cluster: p.owner.Cluster, Name: p.name, Derived: p.derived, Excluded: p.excluded}
	_, err := a.Ledger.Recovery().Readopt(ctx, request, child)
	switch {
	case errors.Is(err, ledger.ErrOutOfRange):
		p.stuck = fmt.Errorf("its parent is another one by now: %s is not in %s", p.cidr, parent.name)
	case errors.Is(err, ledger.ErrInUse) && p.leaves:
		p.stuck = errRetired
	case errors.Is(err, ledger.ErrInUse):
		return errors.Join(fmt.Errorf("%s of %s: %w", p.cidr, parent.name, err), a.suspect(ctx, request.Pool, request))
	default:
		return err
	}
	return nil
}

// errUninvited: the child's status may be forged, past all policies. The parent does not admit the child's workspace,
// or hands out no blocks of that length, and no IPAllocation shows a block of the child. If the status is not forged,
// the parent has changed, and only this child is lost.
var errUninvited = errors.New("its parent would not give it this block, and no record says that it has it")

// refuse leaves out a child that its parent does not admit. While the path of the child's workspace may still become
// known, refuse returns an error instead, which keeps the parent frozen: a parent admits workspaces by their paths.
func (w *world) refuse(p *pool) error {
	if p.owner.Path == "" && w.unnamed.hesitates(p.owner.Cluster, w.clock.Now()) {
		return &nameless{cluster: p.owner.Cluster, error: errUnnamed}
	}
	p.stuck = cmp.Or(p.stuck, errUninvited)
	return nil
}

// vouch marks as vouched the pools that have a block in an IPAllocation, because only the system writes IPAllocations.
// It lists the IPAllocations only if there is a lost child that the parent does not admit.
func (w *world) vouch(ctx context.Context) error {
	var children []*pool
	for _, p := range w.lost {
		if parent := w.above(p); parent != nil && !p.invited(parent, w.Directory.Platform()) {
			children = append(children, p)
		}
	}
	if len(children) == 0 {
		return nil
	}
	return w.Record.Each(ctx, &ipamv1alpha1.IPAllocationList{}, func(cluster ledger.ClusterName, object client.Object) {
		r := readRecord(cluster, object)
		if !r.published() {
			return
		}
		p, err := w.of(r)
		if errors.Is(err, errUnplaced) { // the record names its pool by a path that nobody shows
			for _, p := range children {
				p.vouched = p.vouched || p.name == r.pool.Name && contains(p.cidr, r.request.Exact)
			}
		}
		if err == nil {
			w.vouchFor(p, r)
		}
	})
}

// errRetired: the ledger retired the pool before the loss, and others have its addresses. A finalizer of the owner
// keeps the IPPool.
var errRetired = errors.New("another pool has its addresses, and it is being deleted")

// suspect hints at every other holder of addresses that a request asks for. A holder that the restored ledger has may
// be gone since the copy was taken.
func (a *Adopter) suspect(ctx context.Context, id ledger.PoolID, r ledger.Request) error {
	blocks, err := a.Ledger.Pools().Overlapping(ctx, id, r.Exact)
	for _, b := range blocks {
		if b.Holder.Claim != r.Holder.Claim {
			a.Suspect(b.Holder)
		}
	}
	return err
}

// clear retires a derived pool that the restored ledger has at former addresses: since the copy was taken, the pool was
// retired, and made again elsewhere. If claims still hold the pool or blocks of it, clear hints at these claims, and
// fails: another pass follows their release.
func (a *Adopter) clear(ctx context.Context, former ledger.Pool) error {
	err := a.Ledger.Pools().Retire(ctx, former.ID)
	if !errors.Is(err, ledger.ErrPoolInUse) {
		return err
	}
	if holder := former.Derived.Holder; holder.Claim != "" {
		a.Suspect(holder)
	}
	return errors.Join(
		fmt.Errorf("the copy of the ledger has it at %s, with blocks that are released first: %w", former.CIDR, err),
		a.suspect(ctx, former.ID, ledger.Request{Exact: former.CIDR}),
	)
}

// reopen opens a derived pool that the restored ledger has as draining, although its IPPool is still there. The IPPool
// of a derived pool is deleted before the pool drains. So its release has failed since the copy was taken, or the pool
// was made again since. While the pool drains, no claim can hold it, and it gets no address space.
func (a *Adopter) reopen(ctx context.Context, p *pool, copied ledger.Pool) (err error) {
	if copied.Derived == nil || copied.State != ledger.PoolDraining || p.leaves {
		return nil
	}
	if err = a.Ledger.Recovery().Open(ctx, copied.ID); err != nil {
		return fmt.Errorf("open pool %s again: %w", copied.Name, err)
	}
	return nil
}
