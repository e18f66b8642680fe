package claim

import "time"

const (
	// goneDelay is the delay of a requeue for a state that is usually over soon: the cache does not show a deletion yet, a
	// former claim is not settled, or a pool is not compared.
	goneDelay = time.Second

	// missedDelay is the delay of the requeue of a claim that is gone for certain, although the cache shows it.
	missedDelay = 10 * time.Second

	// checking is the time after the first such case during which no claim reports that a pool is still to be compared
	// with the ledger: the pool controller is about to do so.
	checking = 10 * time.Second

	// coming is the age of a new pool up to which a claim leaves the pool to older claims that were not woken yet.
	coming = 5 * time.Second

	// settling is the age up to which a claim does not report that it waits for the end of a former claim of its name, or
	// for a server that shows the claim itself.
	settling = 10 * time.Second

	// unfinished is how old a claim that shows its block must be before its status shows a fault of the controller. CREATE
	// has answered the claim: the fault delays only bookkeeping. A single fault is never shown: if a leader is stopped for
	// a minute, each pass that was under way fails, and then that replica no longer leads.
	unfinished = 30 * time.Second

	// lasting is how long the ledger must lack the block that a claim shows before the block is taken back. An Allocator
	// notices within a second that its ledger was replaced.
	lasting = 10 * time.Second

	// telling is the age up to which an event tells the first refusal of a claim. An older claim was refused before this
	// process began.
	telling = time.Minute
)
