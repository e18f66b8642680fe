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
// deleted, each after its parent. Any other child stays late.
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

// enterVouched brings those late children in that records have a block of, when all records were read.
func (w *world) enterVouched(ctx context.Context) error {
	for _, r := range w.later {
		w.vouchFor(r.of, r)
	}
	return w.enterLate(ctx, func(p *pool) bool { return p.vouched })
}

// enterRest brings in those that are left, when what claims show was believed.
func (w *world) enterRest(ctx context.Context) error {
	return w.enterLate(ctx, func(*pool) bool { return true })
}

// enterLate brings those children into the ledger that leave, and those below them, if they are among these. The ledger
// may have retired a pool that leaves, and given its addresses to others since: they keep these. So the records of all
// others are read before, and what claims show is believed before a pool enters that no record has a block of. A child
// whose parent went with its workspace is stuck, and takes nothing from any pool that is there.
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
		}
	}
	return nil
}

// enterChildren restores the late children that these selects, each after its parent, and returns those whose parent is
// not in the ledger.
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

// vouchFor marks a pool as vouched if a record shows a block of it, and so its ancestors, as long as each contains the
// block.
func (w *world) vouchFor(p *pool, r record) {
	for p != nil && !p.vouched && contains(p.cidr, r.request.Exact) {
		p.vouched = true
		p = w.above(p)
	}
}

// claimed keeps frozen what a child has the addresses of, where several pools may be its parent.
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

// register enters a root pool where its status says it was.
func (w *world) register(ctx context.Context, p *pool) error {
	if known, ok := w.Ledger.Pools().Get(p.id); ok && known.Space != p.space {
		// It has changed its domain since, when it was empty.
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
	// it may have been there, as it is in the copy that was restored
	return w.Ledger.Recovery().Freeze(ctx, p.id, time.Time{})
}

// displace takes a pool out of the ledger that was deleted since, if that is so.
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

// restore carves a child where its status says it was.
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

// carve takes the block of a child from its parent.
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

// errUninvited: the parent does not admit the workspace of a child, or hands out no blocks of that length, and no
// record has a block of the child. It may have been stored with that status past all policies; if the parent has
// changed since, the child alone loses.
var errUninvited = errors.New("its parent would not give it this block, and no record says that it has it")

// refuse leaves a child out that its parent does not admit. While the path of its workspace may come to be known, by
// which the parent admits, the parent gives nothing out.
func (w *world) refuse(p *pool) error {
	if p.owner.Path == "" && w.unnamed.hesitates(p.owner.Cluster, w.clock.Now()) {
		return &nameless{cluster: p.owner.Cluster, error: errUnnamed}
	}
	p.stuck = cmp.Or(p.stuck, errUninvited)
	return nil
}

// vouch notes the pools that records have blocks of, if one of the children is not one that its parent admits. Records
// are written by the system alone.
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
		if errors.Is(err, errUnplaced) { // by a path that nobody shows
			for _, p := range children {
				p.vouched = p.vouched || p.name == r.pool.Name && contains(p.cidr, r.request.Exact)
			}
		}
		if err == nil {
			w.vouchFor(p, r)
		}
	})
}

// errRetired: the ledger retired the pool before the loss, as another one has its addresses. A finalizer of its owner
// keeps its IPPool.
var errRetired = errors.New("another pool has its addresses, and it is being deleted")

// suspect hints at all others who hold a part of the block that a request asks for: in a
// copy from before they may have been there still.
func (a *Adopter) suspect(ctx context.Context, id ledger.PoolID, r ledger.Request) error {
	blocks, err := a.Ledger.Pools().Overlapping(ctx, id, r.Exact)
	for _, b := range blocks {
		if b.Holder.Claim != r.Holder.Claim {
			a.Suspect(b.Holder)
		}
	}
	return err
}

// clear retires a derived pool of the restored ledger that was retired, and made again at other addresses, since the
// copy was taken. If claims still hold the pool or blocks of it, clear hints at these claims, and fails: another pass
// follows their release.
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

// reopen opens a derived pool that the restored ledger has as draining, although its IPPool is still there. A draining
// pool loses its IPPool first, so the release has failed since the copy was taken, or the pool was made again after it.
// A draining pool is held by no claim, and gets no address space.
func (a *Adopter) reopen(ctx context.Context, p *pool, copied ledger.Pool) (err error) {
	if copied.Derived == nil || copied.State != ledger.PoolDraining || p.leaves {
		return nil
	}
	if err = a.Ledger.Recovery().Open(ctx, copied.ID); err != nil {
		return fmt.Errorf("open pool %s again: %w", copied.Name, err)
	}
	return nil
}
