// Package promise knows by which ID a claim holds its block, also if that was given before the claim had a UID.
//
// A claim that is being created has no UID. So its block is bound to a random ID, which its status shows from then on:
//
//	CREATE ──▶ bound to a new ID ──▶ status in the response, with the ID ──▶ stored
//
// The allocation ID of a claim is that ID, or its UID if it shows none. That a CREATE was answered does not say that it
// succeeds: the name may be taken, or a quota used up. So a block whose claim nobody has seen is not freed while its
// CREATE may still succeed, and each CREATE has an ID of its own. Package release has the table of all cases.
package promise
