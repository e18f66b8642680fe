package claim

import "time"

const (
	// goneDelay is how long a pass waits for its cache to show a deletion.
	goneDelay = time.Second

	// missedDelay is after how long a claim is requeued that the cache shows although it is gone for
	// certain.
	missedDelay = 10 * time.Second

	// checking is how long after the start claims say nothing of a pool that was not
	// compared with the ledger yet.
	checking = 10 * time.Second

	// coming is how long claims leave a new pool to older ones that were not woken yet, at most.
	coming = 5 * time.Second

	// settling is how long a new claim says nothing of a former one of its name.
	settling = 10 * time.Second

	// unfinished is how old a claim that shows its block must be before it shows a fault of the
	// controller. CREATE has answered it: what is left is bookkeeping, which a fault delays. A single fault it never
	// shows: a leader that was stopped for a minute fails once with what was under way, and no longer leads.
	unfinished = 30 * time.Second

	// lasting is the time between two looks that find the ledger to lack what a claim shows, before that is
	// taken back. An Allocator notices within a second that its ledger was replaced.
	lasting = 10 * time.Second

	// telling is how old a claim may be whose first refusal was not told yet. An older one was
	// refused before this process began.
	telling = time.Minute
)
