package promise

import "github.com/kcp-ipam/ipam/allocator/ledger"

// Share is the share of a claim in a block that it shows, and that the ledger has under another holder of its name.
type Share int

const (
	// None: the claim does not show the block, or there is no claim.
	None Share = iota
	// Own: the claim holds the block, too. That is so only in a ledger that was restored from an older copy.
	Own
	// Undecided: nothing can be done about the block yet.
	Undecided
	// Due: the claim gets the block: see [Keeper.Give].
	Due
)

// Has says which block a claim has in the ledger, beside the one of another holder that it shows.
type Has int

const (
	Nothing Has = iota
	TheBlock
	Another
)

// State is how the ledger has a block whose holder is gone.
type State int

const (
	// ForCreate: it is reserved for a claim that is being created.
	ForCreate State = iota
	// OfRecord: it is retained from a former claim.
	OfRecord
	// OfClaim: it is bound to a former claim.
	OfClaim
	// InDispute: it is held by a former claim, and others have addresses of it.
	InDispute
)

// Shares decides which share a claim has in a block that it shows. inFlight: another CREATE that was answered with the
// block may still succeed. A claim that is about to show another block keeps that one. A block that is bound to a former
// claim was the answer to several CREATEs: while one may be under way, nobody gets it. A block of a former claim that is in dispute stays as it is.
func Shares(has Has, state State, inFlight bool) Share {
	switch {
	case has == TheBlock:
		return Own
	case has == Another, state == InDispute, state == OfClaim && inFlight:
		return Undecided
	}
	return Due
}

func stateOf(b ledger.Block) State {
	switch {
	case Is(b.Holder.Claim):
		return ForCreate
	case b.State == ledger.Disputed:
		return InDispute
	case b.State == ledger.Retained:
		return OfRecord
	}
	return OfClaim
}
