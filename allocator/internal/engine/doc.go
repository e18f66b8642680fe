// Package engine writes a ledger, and keeps memory in step with it.
//
// Each space has a worker (worker.go). While a transaction is in flight, requests for the space wait in a
// queue, in which workspaces take turns (queue.go). They share the next one (group.go, commit.go). If an
// answer is lost, the worker first makes sure that the transaction can no longer happen (settle.go). One watch brings the
// changes of other writers (watch.go, events.go), and all may wait until it has come to a revision (watched.go). A ledger
// that was replaced or restored ends the engine (guard.go, health.go).
//
// The engine owns the order of writes. It knows an operation only as an [Op]: a function that
// says which keys change. It must not know what a bind, a release or the retirement of a pool is; those are
// in package allocator. One operation is its own: the end of cooldowns (cooldown.go).
package engine
