// Package claim binds IPClaims to blocks.
//
// One pass over a claim, in order:
//
//	guard     bound, recorded and unchanged: nothing to do
//	former    a record of another claim of this name: settle that one first
//	resolve   class and pools that may serve it, by policy alone
//	bind      the first candidate with room; one ledger transaction
//	publish   create the IPAllocation, then patch the claim's status
//
// A bound claim costs exactly these two API writes, in one reconcile. A refusal
// is a condition and no error; the claim then waits for the topics that could
// change the answer, and beside the ledger for room.
//
// Claims carry no finalizer. Their deletion is a hint, handed to package release.
package claim
