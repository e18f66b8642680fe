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
	reason  reason // that its claim shows
	held    bool
	Last    netip.Prefix // of its hold, or the last one
	clock   *clock       // of the hold
}

func (w *Waiter) cluster() ledger.ClusterName { return w.request.Holder.Tenant() }

// asks reports whether a request is the one that waits.
func (w *Waiter) asks(req ledger.Request) bool {
	return w.request.Exact == req.Exact && (req.Exact.IsValid() || w.request.Length == req.Length)
}

// alike reports whether a request would wait as the waiter does.
func (w *Waiter) alike(req ledger.Request) bool {
	return kindOf(w.request) == kindOf(req) && w.cluster() == req.Holder.Tenant()
}

// clock ends the holds that were made while the lock of the space was held once. Room for very many
// claims may appear at once, and a clock for each would cost as much as all else of waking them.
// The space's lock guards it.
type clock struct {
	waiters []*Waiter // that were held for, in order
	held    int       // how many of them still are
	stop    func() bool
}

// release ends that room is held for a waiter.
func (w *Waiter) release() {
	c := w.clock
	w.held, w.clock = false, nil
	if c.held--; c.held == 0 {
		c.stop()
	}
}
