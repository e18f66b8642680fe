// Package claim binds IPClaims to blocks, and answers their CREATE.
//
// A pass is one reconcile of a claim, or the answer to its CREATE. A record is an IPAllocation. A former claim had the
// name of the claim, and was deleted.
//
// Each pass goes by one table. table.go has its rules, in the order of a pass:
//
//	begin     is there anything to do? A claim that is settled costs nothing
//	shown     a block that the claim shows: find it in the ledger; else ask for it again, inherit it, or clear the status
//	former    a block that a former claim of the name left: settle it, reuse it, or leave it where it is
//	bind      by class and pools, the first candidate with room; one ledger transaction
//	publish   create the IPAllocation, then patch the claim's status
//
// facts.go reads the facts that the table asks for, act.go carries its actions out, and decide.go looks for a block.
// TestDecide_MatchesTheDrawing draws all ways of a pass. The pass of a CREATE ends before publish.
//
// A claim whose CREATE was answered costs one API write: its status is there already. Any other claim costs two, in one
// reconcile. A refusal is a condition, not an error. A refused claim waits for topics (things whose change may change
// the answer), and in the ledger for room.
//
// Claims carry no finalizer. Their deletion is a hint, handed to package release.
package claim
