package v1alpha1

import (
	"net/netip"
	"strings"
)

// What ends the wait for room: for any block, and for one that can be smaller.
const (
	roomForAddress = "release a block, or ask for another pool"
	smaller        = "claim a smaller block, "
)

// outcomes say of each reason with which code a program ends that waited for the
// answer, and what to do about it in one line. Codes never change their meaning.
var outcomes = map[Reason]struct {
	exit   int
	remedy string
}{
	ReasonAllocationSucceeded:  {exit: 0},
	ReasonPoolExhausted:        {7, smaller + roomForAddress},
	ReasonClassNotFound:        {4, "name a class that is listed, or ask the platform to create the class or to admit this workspace"},
	ReasonNoDefaultClass:       {4, "name a class, or ask the platform to make one the default of the family"},
	ReasonUnknownProvisioner:   {8, "use another class, or ask the platform to correct spec.provisioner of this one"},
	ReasonDefaultConflict:      {5, "remove the default annotation from one of the two classes"},
	ReasonQuotaExceeded:        {7, "release addresses of the same class or pool, or ask the platform or the pool's owner to raise the limit"},
	ReasonNoOfferingPool:       {8, "add the class to spec.classNames of a pool that serves this workspace, or ask the platform to do so"},
	ReasonPoolNotFound:         {4, "correct the name, create the pool, or ask its owner to share it with this workspace"},
	ReasonPrefixLengthRejected: {6, "ask for a length in the range that the message states"},
	ReasonFamilyMismatch:       {6, "correct or drop the address family, or name another class or pool"},
	ReasonAddressInUse:         {5, "wait for its release, or ask for another address"},
	ReasonAddressOutOfRange:    {6, "ask for an address inside a pool that can serve this claim"},
	ReasonAddressReserved:      {6, "ask for an address that the pool does not reserve or exclude, or for a length instead"},
	ReasonAllocationRetained:   {5, "delete the retained IPAllocation, which frees its block, claim with retainedPolicy Reuse to get it back, or use another name"},
	ReasonScopeRolesMissing:    {6, "create the claim with an object for each missing role in its scope: --scope ROLE=NAME"},
	ReasonChainBroken:          {8, "use another class, or ask the platform to correct the class that the message names"},
	ReasonTargetRejected:       {6, "claim a block, or name a class with poolPer"},
	ReasonRangeHeld:            {5, "delete the claim that holds the range, or claim blocks inside of it"},
	ReasonRangeExists:          {5, "claim the range without an address and a length, or release all that is inside it first"},
	ReasonRangeNotHeld:         {4, "correct the name in the scope, or claim the range of that scope first: --target range"},
	ReasonOverlap:              {5, "choose another CIDR, or put both pools in one addressDomain"},
	ReasonError:                {1, "the controller retries; if this persists, see its log"},

	ReasonValidated: {exit: 0},
	ReasonInUse:     {5, "release what the pool holds first"},
	ReasonUnused:    {exit: 0},

	ReasonUniqueWithinDiffers: {5, "remove a class from spec.classNames of the pool that the message names"},
}

// ExitCode returns the code with which a program ends that waited for an answer and
// got this reason: 0 for success, 1 for a reason that this version does not know.
func (r Reason) ExitCode() int {
	outcome, ok := outcomes[r]
	if !ok {
		return 1
	}
	return outcome.exit
}

// Remedy says what to do about this reason, in one line; empty when there is
// nothing to do.
func (r Reason) Remedy() string { return outcomes[r].remedy }

// RemedyFor returns the remedy for an object that asks for a block, given as status.requested has it. It advises a
// smaller block only if that is known to have more than one address.
func (r Reason) RemedyFor(requested string, family IPFamily) string {
	if r == ReasonPoolExhausted && !divisible(requested, family) {
		return roomForAddress
	}
	return r.Remedy()
}

// divisible reports whether a block is known to have more than one address. A /32 of an unknown family is not.
func divisible(requested string, family IPFamily) bool {
	if length, ok := strings.CutPrefix(requested, "/"); ok {
		return length != "128" && (length != "32" || family == IPv6)
	}
	block, err := netip.ParsePrefix(requested)
	return err == nil && !block.IsSingleIP()
}
