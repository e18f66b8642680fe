// Package engine is the one writer of a ledger, and keeps memory in step with the ledger.
//
// It takes the office of the ledger's writer (office.go), and reads the ledger (snapshot.go). From then on, only its
// own commits change memory (events.go). While a transaction is in flight, requests for all spaces wait in one queue,
// in which workspaces take turns (queue.go). The waiting requests share the next transaction (writer.go, group.go,
// commit.go). If an answer is lost, the writer first finds out for certain what became of the transaction (settle.go).
// The engine ends when another process takes the office, or when the ledger differs from memory (health.go).
//
// The engine owns the order of writes. It knows an operation only as an [Op]: a function that
// says which keys change. It must not know what a bind, a release or the retirement of a pool is; those are
// in package allocator. One operation is its own: the end of cooldowns (cooldown.go).
package engine
