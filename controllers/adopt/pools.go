package adopt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// enter brings the lost pools into the ledger: all roots, then children whose parent
// is there, until no more can be. A pool that is there is as it was. A child whose parent
// went with its workspace is stuck, and takes nothing from any pool that is there.
func (w *world) enter(ctx context.Context) error {
	var children []*pool
	for _, p := range w.lost {
		if p.parent != nil {
			children = append(children, p)
			continue
		}
		if err := w.stick(p, w.register(ctx, p)); err != nil {
			return fmt.Errorf("pool %s of %s: %w", p.name, p.owner.Path, err)
		}
	}
	for len(children) > 0 {
		orphans, err := w.enterBelow(ctx, children)
		if err != nil {
			return err
		}
		if len(orphans) == len(children) {
			for _, p := range orphans {
				p.stuck = errors.New("its parent is gone, or is stuck itself")
			}
			return nil
		}
		children = orphans
	}
	return nil
}

// enterBelow brings children into the ledger whose parent is there, and returns the others.
func (w *world) enterBelow(ctx context.Context, children []*pool) (orphans []*pool, err error) {
	for _, p := range children {
		parent := w.find(p.owner.Cluster, *p.parent)
		if parent == nil || !w.knows(parent) {
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

func (w *world) knows(p *pool) bool {
	_, known := w.Ledger.Pools().Get(p.id)
	return known
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
	if overlap, ok := errors.AsType[*ledger.OverlapError](err); ok && !w.ids[overlap.With.ID] {
		return errors.Join(err, w.displace(ctx, overlap.With))
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
	if known, ok := w.Ledger.Pools().Get(p.id); ok && (known.CIDR == p.cidr || p.derived == nil) {
		return nil
	} else if ok {
		if err := w.clear(ctx, known); err != nil {
			return err
		}
	}
	request := ledger.Request{Pool: parent.id, Holder: p.holder(), Exact: p.cidr, Since: p.made, Slice: p.slice == parent.id}
	child := ledger.Pool{ID: p.id, Cluster: p.owner.Cluster, Name: p.name, Derived: p.derived, Excluded: p.excluded}
	_, err := w.Ledger.Recovery().Readopt(ctx, request, child)
	if errors.Is(err, ledger.ErrOutOfRange) {
		p.stuck = fmt.Errorf("its parent is another one by now: %s is not in %s", p.cidr, parent.name)
		return nil
	}
	if errors.Is(err, ledger.ErrInUse) && p.leaves {
		p.stuck = errRetired
		return nil
	}
	if errors.Is(err, ledger.ErrInUse) {
		return errors.Join(fmt.Errorf("%s of %s: %w", p.cidr, parent.name, err), w.suspect(ctx, parent.id, request))
	}
	return err
}

// errRetired: the ledger retired the pool before the loss, as another one has its addresses. A finalizer of its owner keeps its IPPool.
var errRetired = errors.New("another pool has its addresses, and it is being deleted")

// suspect hints at all others who hold something of what a request asks for: in a
// copy from before they may have been there still.
func (a *Adopter) suspect(ctx context.Context, id ledger.PoolID, r ledger.Request) error {
	blocks, err := a.Ledger.Pools().Overlapping(ctx, id, r.Exact)
	for _, b := range blocks {
		if b.Holder.Claim != r.Holder.Claim {
			a.Suspect(b.Holder)
		}
		a.Doubt(b.Holder)
	}
	return err
}
