package allocator

import "time"

// DueLeases names the holders whose leases are over, the oldest first, and says when the next one
// will be; zero: there is none. One that was named is named again after a minute, as long as the
// ledger has its block. Nothing is released: the caller does that, after it has made sure.
func (a *Allocator) DueLeases(now time.Time) (due []Holder, next time.Time) {
	return a.table.Leases.Tell(now)
}

// LeaseNews is sent to when what DueLeases has said of the next one may no longer be so. It is
// for one receiver.
func (a *Allocator) LeaseNews() <-chan struct{} { return a.table.Leases.News }
