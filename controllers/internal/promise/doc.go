// Package promise knows by which ID a claim holds its block, even if the block was bound before the claim had a UID.
//
// A claim that is being created has no UID. So its block is bound to a random ID, which its status shows from then on:
//
//	CREATE ──▶ bound to a new ID ──▶ status in the response, with the ID ──▶ stored
//
// The allocation ID of a claim is that ID, or the claim's UID if it shows none. A CREATE that was answered may still
// fail: the name may be taken, or a quota used up. So a block whose claim was not seen is not freed while its CREATE
// may still succeed, and each CREATE has an ID of its own. Package release has the table of all cases.
package promise
