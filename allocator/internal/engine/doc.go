// Package engine writes a ledger, and keeps memory in step with it.
//
// Each space has a worker. Requests for the space queue up while a transaction is in flight,
// workspaces taking turns (queue.go), and then share the next one (batch.go, commit.go). An
// answer that got lost is fenced before anything else is done (settle.go). One watch brings
// what others have written (watch.go, events.go), and a ledger that turns out to be another
// one ends it all (guard.go, health.go).
//
// It owns the order in which things are written. It knows an operation as an [Op] only: what
// to ask of the transaction, and what to do with the answer. It must not know what a bind, a
// release or a pool's retirement is; those are in package allocator. Its own are the mark of
// waiters (lead.go) and the end of cooldowns (cooldown.go).
package engine
