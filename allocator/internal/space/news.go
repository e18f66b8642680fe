package space

import (
	"iter"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// News are what callers outside of the space are told, once its lock is free.
type News struct {
	Woken    []*ledger.Holder // that should ask again; there may be very many at once
	Touched  []ledger.PoolID  // whose usage or state is another
	Left     []ledger.Pool    // that are in the ledger no longer
	Drained  []*Pool          // whose last block is gone: they are to be retired
	Relieved []Account        // on which less is held
}

// Touch notes that the usage or the state of a pool is another.
func (n *News) Touch(id ledger.PoolID) {
	if !slices.Contains(n.Touched, id) {
		n.Touched = append(n.Touched, id)
	}
}

func (n *News) touchAll(pools iter.Seq[*Pool]) {
	for p := range pools {
		n.Touch(p.ID)
	}
}

// Reconcile notes the holder of a block that is in dispute no longer: it should ask again.
func (n *News) Reconcile(r store.Record) {
	if !r.Disputed {
		b := r.Block(r.Holdings[0])
		n.wake(&b.Holder)
	}
}

func (n *News) wake(h *ledger.Holder) { n.Woken = append(n.Woken, h) }

func (n *News) relieve(a Account) {
	if !slices.Contains(n.Relieved, a) {
		n.Relieved = append(n.Relieved, a)
	}
}
