package space

import (
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Waiter is a claim that waits.
type Waiter struct {
	request ledger.Request
	since   time.Time
	reason  reason // the reason that its claim shows
	held    bool
	Last    netip.Prefix // the prefix of its hold, or of its last one
	clock   *clock       // of the hold
}

func (w *Waiter) cluster() ledger.ClusterName { return w.request.Holder.Tenant() }

// asks reports whether a request is for the same block as the waiter's request.
func (w *Waiter) asks(req ledger.Request) bool {
	return w.request.Exact == req.Exact && (req.Exact.IsValid() || w.request.Length == req.Length)
}

// alike reports whether a request would wait for the same kind of block, in the same workspace, as the waiter does.
func (w *Waiter) alike(req ledger.Request) bool {
	return kindOf(w.request) == kindOf(req) && w.cluster() == req.Holder.Tenant()
}

// clock ends the holds that were made in one critical section of the space. Room for very many claims may appear at
// once, and a clock for each hold would cost as much as waking the claims. The space's lock guards it.
type clock struct {
	waiters []*Waiter // waiters whose holds began with it, in order
	held    int       // how many of them still have their hold
	stop    func() bool
}

// release ends the hold of a waiter, and stops its clock if that was the last hold.
func (w *Waiter) release() {
	c := w.clock
	w.held, w.clock = false, nil
	if c.held--; c.held == 0 {
		c.stop()
	}
}
