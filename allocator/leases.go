package allocator

import "time"

// DueLeases returns the holders whose leases are over, the oldest first, and the end of the next lease;
// zero: there is none. It returns a holder again after a minute, as long as the ledger has the block.
// It releases nothing: the caller does, once it has confirmed that the claim is gone.
func (a *Allocator) DueLeases(now time.Time) (due []Holder, next time.Time) {
	return a.table.Leases.Tell(now)
}

// LeaseNews receives a value when the next lease may end earlier than DueLeases has returned. It is for
// one receiver.
func (a *Allocator) LeaseNews() <-chan struct{} { return a.table.Leases.News }
