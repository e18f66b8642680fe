// Package engine writes a ledger, as the one process that does, and keeps memory in step with it.
//
// It takes the office of the ledger's writer (office.go), reads the ledger (snapshot.go), and from then on changes
// memory by its own commits alone (events.go). While a transaction is in flight, requests for all spaces wait in one
// queue, in which workspaces take turns (queue.go). They share the next one (writer.go, group.go, commit.go). If an
// answer is lost, the writer first makes certain what became of the transaction (settle.go). Another process that takes
// the office ends the engine, and so does a ledger that is not as memory has it (health.go).
//
// The engine owns the order of writes. It knows an operation only as an [Op]: a function that
// says which keys change. It must not know what a bind, a release or the retirement of a pool is; those are
// in package allocator. One operation is its own: the end of cooldowns (cooldown.go).
package engine
