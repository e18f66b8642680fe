// Package promise decides which claim may have a block that a CREATE was answered with.
//
// A claim that is being created has no UID. So its block is reserved under a hash of its name and spec, or
// stays with the former claim of its name, until the claim is stored:
//
//	CREATE ──▶ reserved, or still retained ──▶ status in the response ──▶ stored ──▶ the claim's own
//
// That a CREATE was answered does not say that it succeeds: the name may be taken, or a quota used up. A CREATE that
// succeeds later than its answer leaves a claim that shows the block. So the ledger may have a block under a holder
// that is gone, while a later claim of the same name shows it. [Keeper] finds out, and gives that claim the block,
// which is never free in between. Package release has the table of all cases.
package promise
