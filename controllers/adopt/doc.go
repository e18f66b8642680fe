// Package adopt makes a ledger whole again that was lost, or restored from a copy
// that is older than what was published since.
//
// Every status of a pool says which ledger it speaks of and how many changes that
// had seen of the pool's space. The ledger begins frozen; a pool is trusted when the
// ledger that was found has all that. If it has not, nothing is given out of the
// pool's space until the published record was read, all of it, past every cache:
//
//	pools, roots first      registered and carved as their status says
//	allocations             adopted where they are, with their claim and policy
//	claims                  likewise, where the allocation is missing: lost, or not written yet
//
// One server that does not answer, or a ledger that does not, keeps all of them frozen,
// and everything is tried again. What cannot be done for one pool, as a key of the ledger
// cannot be read, keeps that pool frozen, and those that share its addresses. Of two records of the same
// addresses one gets them: see rivals.go.
package adopt
