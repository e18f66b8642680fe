// Package recover joins the ledger with the pools, claims and IPAllocations of all workspaces.
//
//	ledger at a revision ──▶ books ──┐
//	pools, claims, records, live ────┴──▶ what differs ──┬──▶ Verifier: look again later, and say it
//	                                                    └──▶ Adopter: write what is published and not in the ledger
//
// The join computes: it has no client, and asks neither ledger nor cache. It holds what it compares of the ledger's
// blocks in memory, less than 100 bytes each; objects pass by in pages.
//
// The Verifier changes nothing. Much differs for a moment: a block is bound before its record is written, a record goes
// before its block. So whatever differs is looked for a second time, later and at no older revision, and is a finding
// only if it is there unchanged. A block may be bound for a claim that is being created, or whose CREATE failed: that
// is a finding only when there is no claim for long. A repair is a hint to the controller whose task it is, which
// confirms for itself, so that a wrong finding does no harm.
//
// The Adopter makes a ledger whole again that was lost, or restored from a copy that is older than the objects. Every
// status of a pool says which ledger it speaks of and how many changes that had seen of the pool's space. The ledger
// begins frozen; a pool is trusted when the ledger that was found has all that. If it has not, nothing is given out of
// the pool's space until what is published was read, all of it, past every cache:
//
//	pools, roots first      registered and carved as their status says
//	IPAllocations           adopted where they are, with their claim and policy
//	claims                  likewise, where the IPAllocation is missing: lost, or not written yet
//
// One server that does not answer, or a ledger that does not, keeps all of them frozen, and everything is tried again.
// What cannot be done for one pool, as a key of the ledger cannot be read, keeps that pool frozen, and those that share
// its addresses. Of two records of the same addresses one gets them: see rivals.go.
package recover
