package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// enter brings the lost pools into the ledger: all roots, then children whose parent
// is there, until no more can be. A pool that is there is as it was. A child whose parent
// went with its workspace is stuck, and takes nothing from any pool that is there.
// All others enter late.
func (w *world) enter(ctx context.Context) error {
	var children, late []*pool
	for _, p := range w.lost {
		switch {
		case p.parent == nil:
			if err := w.stick(p, w.register(ctx, p)); err != nil {
				return fmt.Errorf("pool %s of %s: %w", p.name, p.owner.Path, err)
			}
		case p.leaves:
			late = append(late, p)
		default:
			children = append(children, p)
		}
	}
	err := w.vouch(ctx, slices.Concat(children, late))
	if err != nil {
		return err
	}
	if children, err = w.enterChildren(ctx, children); err != nil {
		return err
	}
	for _, p := range slices.Concat(children, late) {
		p.late = true
	}
	for _, p := range w.lost {
		p.lost = p.stuck == nil && !p.late
	}
	return nil
}

// enterLate brings those children into the ledger that leave, and those below them, if they are among these. The ledger
// may have retired a pool that leaves, and given its addresses to others since: they keep these. So the records of all
// others are read before, and what claims show is believed before a pool enters that no record has a block of.
func (w *world) enterLate(ctx context.Context, these func(*pool) bool) error {
	var children []*pool
	for _, p := range w.lost {
		if p.late && these(p) {
			children = append(children, p)
		}
	}
	orphans, err := w.enterChildren(ctx, children)
	if err != nil {
		return err
	}
	for _, p := range orphans {
		p.stuck = errors.New("its parent is gone, or is stuck itself")
		if of := p.parent.ProjectRef; of != nil {
			p.stuck = &nameless{path: of.Name, error: p.stuck}
		}
		if err := w.claimed(p); err != nil {
			return err
		}
	}
	for _, p := range children {
		p.late, p.lost = false, p.stuck == nil
	}
	later := w.later
	w.later = nil
	for _, r := range later {
		p, err := w.of(r)
		switch {
		case err != nil:
		case p.late:
			w.later = append(w.later, r)
		case p.lost:
			if err := w.stick(p, w.take(ctx, p, r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// vouchLate notes the pools, of those that enter late, that records have blocks of, and those above them.
func (w *world) vouchLate() {
	for _, r := range w.later {
		p, _ := w.of(r)
		w.vouchFor(p, r)
	}
}

// vouchFor notes a pool that a record has a block of, and those above it that have the block.
func (w *world) vouchFor(p *pool, r record) {
	for p != nil && !p.vouched && p.has(r.request.Exact) {
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
		if err := w.stick(p, &nameless{path: child.parent.ProjectRef.Name, error: fmt.Errorf("its child %s of workspace %s may be that of another workspace, which shows the same path",
			child.name, child.owner.Cluster)}); err != nil {
			return err
		}
	}
	return nil
}

// enterChildren brings children into the ledger, those first whose parent is there, and returns those whose parent is
// not.
func (w *world) enterChildren(ctx context.Context, children []*pool) (orphans []*pool, err error) {
	for {
		orphans, err = w.enterBelow(ctx, children)
		if err != nil || len(orphans) == len(children) {
			return orphans, err
		}
		children = orphans
	}
}

// enterBelow brings children into the ledger whose parent is there, and returns the others.
func (w *world) enterBelow(ctx context.Context, children []*pool) (orphans []*pool, err error) {
	for _, p := range children {
		parent := w.above(p)
		known := false
		if parent != nil {
			_, known = w.Ledger.Pools().Get(parent.id)
		}
		if !known {
			orphans = append(orphans, p)
			continue
		}
		err := w.readopt(ctx, p, parent)
		if err != nil {
			p.lacking = parent.space
		}
		if err := w.stick(p, err); err != nil {
			return nil, fmt.Errorf("pool %s of %s: %w", p.name, p.owner.Path, err)
		}
	}
	return orphans, nil
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
	return w.Ledger.Recovery().Freeze(ctx, p.id, time.Time{}) // it may have been there, as it is in the copy that was restored
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

// readopt carves a child where its status says it was.
func (w *world) readopt(ctx context.Context, p, parent *pool) error {
	if known, ok := w.Ledger.Pools().Get(p.id); ok && (p.derived == nil || known.CIDR == p.cidr && known.Parent == p.carvedIn().In(parent.id)) {
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
		Pool: in.In(parent.id), Begins: in.Begins(parent.id), Exact: p.cidr, Since: p.made, Class: p.object.Spec.ParentClassName, Slice: p.slice == parent.id,
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

// invited reports whether a child pool would be carved from its parent today, room and limits apart. A pool that the
// system makes for a scope is in one of its own workspace or of the platform. No more is asked of it: the class may
// have changed since, and a claim may have been answered with all of the pool. From an object that cannot be read
// nothing follows.
func (p *pool) invited(parent *pool, platform directory.Workspace) bool {
	if p.derived != nil {
		return slices.Contains([]ledger.ClusterName{p.owner.Cluster, platform.Cluster}, parent.owner.Cluster)
	}
	if decode.Unreadable(p.object) != nil || decode.Unreadable(parent.object) != nil {
		return true
	}
	return resolve.ParentQuery{Child: p.object, From: p.owner}.Admitted(parent.object, parent.owner)
}

// refuse leaves a child out that its parent does not admit. While the path of its workspace may come to be known, by
// which the parent admits, the parent gives nothing out.
func (w *world) refuse(p *pool) error {
	if p.owner.Path == "" && w.unnamed.hesitates(p.owner.Cluster, w.clock.Now()) {
		return &nameless{cluster: p.owner.Cluster, error: errUnnamed}
	}
	p.stuck = cmp.Or(p.stuck, errUninvited)
	return nil
}

// vouch notes the pools that records have blocks of, if one of these children is not one that its parent admits.
// Records are written by the system alone.
func (w *world) vouch(ctx context.Context, children []*pool) error {
	children = slices.DeleteFunc(children, func(p *pool) bool {
		parent := w.above(p)
		return parent == nil || p.invited(parent, w.Directory.Platform())
	})
	if len(children) == 0 {
		return nil
	}
	return w.Record.Each(ctx, &ipamv1alpha1.IPAllocationList{}, func(cluster ledger.ClusterName, object client.Object) {
		r, ok := readRecord(cluster, object)
		p, err := w.of(r)
		if ok && errors.Is(err, errUnplaced) { // by a path that nobody shows
			for _, p := range children {
				p.vouched = p.vouched || p.name == r.pool.Name && p.has(r.request.Exact)
			}
		}
		if ok && err == nil {
			w.vouchFor(p, r)
		}
	})
}

// has reports whether a block is inside a pool.
func (p *pool) has(block netip.Prefix) bool {
	return p.cidr.Bits() <= block.Bits() && p.cidr.Contains(block.Addr())
}

// errRetired: the ledger retired the pool before the loss, as another one has its addresses. A finalizer of its owner
// keeps its IPPool.
var errRetired = errors.New("another pool has its addresses, and it is being deleted")

// suspect hints at all others who hold something of what a request asks for: in a
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
