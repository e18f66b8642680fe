// Package verify compares what the ledger holds, what IPAllocations record and
// what claims and pools show, over all workspaces, and names every difference.
//
//	ledger at a revision ──▶ books ──┐
//	pools, claims, records, live ────┴──▶ differences ─── pause, look again ──▶ findings
//
// Much differs for a moment: a block is bound before its record is written, a
// record goes before its block. So whatever differs is looked for a second time,
// later and at no older revision, and is a finding only if it is there unchanged.
//
// A block may be bound for a claim that is being created, or whose CREATE failed. That is
// a finding only when there is no claim for long.
//
// It reads from etcd and from the API servers, never from a cache or an index,
// and shares no judgement with the controllers. While it looks it holds what it compares of the
// ledger's blocks in memory, less than 100 bytes each; objects pass by in pages.
//
// It changes nothing. A repair is a hint to the controller whose task it is, which
// confirms for itself, so that a wrong finding does no harm.
package verify
