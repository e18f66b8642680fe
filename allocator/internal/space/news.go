package space

import (
	"iter"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// News are the notifications of a space, which are delivered once its lock is released.
type News struct {
	Woken   []*ledger.Holder // holders that should ask again; there may be very many at once
	Touched []ledger.PoolID  // pools whose usage or state has changed
	Left    []ledger.Pool    // pools that have left the ledger
	Drained []*Pool          // pools whose last block is gone: they are to be retired
	Lowered []Account        // accounts that have sunk
}

// Touch notes that the usage or the state of a pool has changed.
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

func (n *News) wake(h *ledger.Holder) { n.Woken = append(n.Woken, h) }

func (n *News) lower(a Account) {
	if !slices.Contains(n.Lowered, a) {
		n.Lowered = append(n.Lowered, a)
	}
}
