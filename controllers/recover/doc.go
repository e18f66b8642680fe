// Package recover joins the ledger with the pools, claims and IPAllocations of all workspaces.
//
//	ledger at a revision ──▶ books ──┐
//	pools, claims, records, live ────┴──▶ what differs ──┬──▶ Verifier: compare again later, and report
//	                                                    └──▶ Adopter: adopt what is published and not in the ledger
//
// The join is pure computation: it has no client, and reads neither etcd nor caches. It holds the blocks of the ledger
// in memory, in less than 100 bytes each. Objects are listed in pages, and not kept.
//
// The Verifier changes nothing. Many differences are transient: a block is bound before its IPAllocation is written,
// and an IPAllocation is deleted before its block is freed. So the Verifier compares a second time, later and at no
// older revision, and reports only the differences that are unchanged. A block may be bound for a claim that is being
// created, or whose CREATE failed. Such a block is a finding only if no claim appears for longer than a CREATE may
// take; see overdue. A repair is a hint to the controller in charge, which confirms it by itself, so that a wrong
// finding does no harm.
//
// The Adopter recovers a ledger that was lost, or restored from a copy that is older than the objects. The status of
// each pool names a ledger, and shows how many changes of the pool's space that ledger had counted. At its start the
// ledger is frozen. A pool is trusted when the ledger has the changes that the pool's status shows. If the ledger lacks
// some of them, nothing is allocated from the pool's space until all published objects were read live:
//
//	pools, roots first      registered and carved as their status says; one without a status as its IPAllocations say
//	IPAllocations           adopted where they are, with their claim and policy
//	claims                  likewise, where the IPAllocation is missing: lost, or not written yet
//
// If an API server or etcd does not answer, all lost pools stay frozen, and the pass is tried again. A fault of one
// pool alone, such as an unreadable key of the ledger, keeps only that pool frozen, and the pools that share its
// addresses. If two records show the same addresses, one of them gets the addresses: see rivals.go.
package recover
