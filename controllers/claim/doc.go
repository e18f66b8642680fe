// Package claim binds IPClaims to blocks, and answers their CREATE.
//
// One pass over a claim, in order:
//
//	guard     bound, recorded and unchanged: nothing to do
//	held      a block that the claim shows: find it by the ID that the claim shows
//	former    a record of another claim of this name: settle that one first
//	resolve   class and pools that may serve it, by policy alone
//	bind      the first candidate with room; one ledger transaction
//	publish   create the IPAllocation, then patch the claim's status
//
// A claim whose CREATE was answered costs one API write: its status is
// there already. Any other claim costs two, in one reconcile. The door decides by the same
// code, for a claim that is being created: see decision. A refusal
// is a condition and no error; the claim then waits for the topics that could
// change the answer, and beside the ledger for room.
//
// Claims carry no finalizer. Their deletion is a hint, handed to package release.
package claim
