package recover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Kind says what is wrong. The list is closed, and each is explained in
// docs/verify.md.
type Kind string

// What may be wrong in the ledger by itself.
const (
	// OverlappingBlocks: two blocks of a space have an address in common.
	OverlappingBlocks Kind = "OverlappingBlocks"
	// OverlappingPools: two root pools of a workspace overlap, and share no space.
	OverlappingPools Kind = "OverlappingPools"
	// ClaimKeyMismatch: a block without the claim's key that leads to it, or such a key without the block.
	ClaimKeyMismatch Kind = "ClaimKeyMismatch"
	// SeveralBlocks: a claim has more than one.
	SeveralBlocks Kind = "SeveralBlocks"
	// BlockOutsidePool: a block's pool is not registered, or the block does not lie in it.
	BlockOutsidePool Kind = "BlockOutsidePool"
	// ChildWithoutBlock: a child pool does not have the block of its parent that is its CIDR.
	ChildWithoutBlock Kind = "ChildWithoutBlock"
	// SpaceWithoutHead: a space has pools or blocks and no fence.
	SpaceWithoutHead Kind = "SpaceWithoutHead"
	// BlockOverdue: the time is over at which a cooling block is free, and it cools still.
	BlockOverdue Kind = "BlockOverdue"
	// HistoryMismatch: the history has two holders of a block at the same time, or a tenure that
	// ends in the future.
	HistoryMismatch Kind = "HistoryMismatch"
	// Unreadable: a key of the ledger is damaged, or of a version that is not known; or an object is stored with a
	// value that the API does not have.
	Unreadable Kind = "Unreadable"
)

// What may differ between the ledger and the published objects.
const (
	// ExportGone: the platform has no APIExport. It is found alone: no workspace can be read, so nothing was compared.
	ExportGone Kind = "ExportGone"
	// ExportReplaced: the APIExport has another identity than the ledger's holders. It is found alone, too.
	ExportReplaced Kind = "ExportReplaced"
	// BlockWithoutClaim: the claim or child pool that holds a block does not exist.
	BlockWithoutClaim Kind = "BlockWithoutClaim"
	// ClaimWithoutBlock: a claim shows an address that the ledger has not given to it.
	ClaimWithoutBlock Kind = "ClaimWithoutBlock"
	// ClaimMismatch: a claim shows something else than its block.
	ClaimMismatch Kind = "ClaimMismatch"
	// BlockWithoutRecord: a block has no IPAllocation.
	BlockWithoutRecord Kind = "BlockWithoutRecord"
	// RecordWithoutBlock: an IPAllocation records a block that the ledger does not have.
	RecordWithoutBlock Kind = "RecordWithoutBlock"
	// LeaseOverdue: the lease of a retained block was over long ago, and it was not released.
	LeaseOverdue Kind = "LeaseOverdue"
	// RecordMismatch: an IPAllocation records something else than its block.
	RecordMismatch Kind = "RecordMismatch"
	// PoolWithoutObject: a pool is open in the ledger and its IPPool does not exist.
	PoolWithoutObject Kind = "PoolWithoutObject"
	// PoolNotRegistered: an IPPool shows a CIDR, and the ledger does not know the pool.
	PoolNotRegistered Kind = "PoolNotRegistered"
	// PoolMismatch: an IPPool shows something else than the ledger's pool.
	PoolMismatch Kind = "PoolMismatch"
	// CapacityMismatch: the figures of an IPPool are not those of its blocks.
	CapacityMismatch Kind = "CapacityMismatch"
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		OverlappingBlocks, OverlappingPools, ClaimKeyMismatch, SeveralBlocks, BlockOutsidePool,
		ChildWithoutBlock, SpaceWithoutHead, BlockOverdue, HistoryMismatch, Unreadable, ExportGone, ExportReplaced,
		BlockWithoutClaim, ClaimWithoutBlock, ClaimMismatch, BlockWithoutRecord, RecordWithoutBlock,
		LeaseOverdue, RecordMismatch, PoolWithoutObject, PoolNotRegistered, PoolMismatch, CapacityMismatch,
	}
}

// Repair is what can safely be done about a finding; empty if nothing can.
type Repair string

const (
	// LookAtClaim has the claim looked at again: its record and status are
	// written from its block. If it has none, and no record, what it shows is taken back.
	LookAtClaim Repair = "LookAtClaim"
	// LookAtPool has the pool looked at again: its figures are written once more.
	LookAtPool Repair = "LookAtPool"
	// ConfirmRelease has the holder looked up live, by the rules of every
	// release: only if it is confirmed to be gone, its record and block go.
	ConfirmRelease Repair = "ConfirmRelease"
)

// Finding is one thing that is wrong. Findings are comparable; equal ones of two
// looks are the same thing, unchanged.
type Finding struct {
	Kind Kind `json:"kind"`
	// Cluster, Namespace and Name are the claim, child pool or pool that it is
	// about, as far as that is known. A pool has no namespace.
	Cluster   ledger.ClusterName `json:"cluster,omitempty"`
	Namespace string             `json:"namespace,omitempty"`
	Name      string             `json:"name,omitempty"`
	// UID is that of the same claim or pool.
	UID string `json:"uid,omitempty"`
	// Prefix is the block or the pool's CIDR.
	Prefix  string `json:"prefix,omitempty"`
	Message string `json:"message"`
	Repair  Repair `json:"repair,omitempty"`

	revision int64 // of the block: one given back and given again is another
}

func (f Finding) holder() ledger.Holder {
	return ledger.Holder{Claim: ledger.ClaimID(f.UID), Cluster: f.Cluster, Namespace: f.Namespace, Name: f.Name}
}

// Report is the result of one verification: what differs, and the revision of the ledger that was compared.
type Report struct {
	// Revision of the ledger that was compared.
	Revision int64 `json:"revision"`
	// Time at which the comparison ended.
	Time time.Time `json:"time"`
	// Pools and Blocks that the ledger held.
	Pools  int `json:"pools"`
	Blocks int `json:"blocks"`
	// Findings are in the order of kinds, workspaces and names. Never nil.
	Findings []Finding `json:"findings"`
}

// Repairs counts what can be repaired.
func (r Report) Repairs() int {
	n := 0
	for _, f := range r.Findings {
		if f.Repair != "" {
			n++
		}
	}
	return n
}

func sorted(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			strings.Compare(string(a.Kind), string(b.Kind)),
			strings.Compare(string(a.Cluster), string(b.Cluster)),
			strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name),
			strings.Compare(a.Prefix, b.Prefix),
			strings.Compare(a.Message, b.Message),
		)
	})
	return findings
}

// about begins a finding on the holder of a block.
func about(kind Kind, b ledger.Block, format string, args ...any) Finding {
	return Finding{
		Kind: kind, Cluster: b.Holder.Cluster, Namespace: b.Holder.Namespace, Name: b.Holder.Name,
		UID: string(b.Holder.Claim), Prefix: b.Prefix.String(), Message: fmt.Sprintf(format, args...),
		revision: b.Revision,
	}
}

// aboutPool begins a finding on a pool of the ledger.
func aboutPool(kind Kind, p ledger.Pool, format string, args ...any) Finding {
	return Finding{
		Kind: kind, Cluster: p.Cluster, Name: p.Name, UID: string(p.ID),
		Prefix: p.CIDR.String(), Message: fmt.Sprintf(format, args...),
	}
}

// by adds what can safely be done about a finding.
func (f Finding) by(repair Repair) Finding {
	f.Repair = repair
	return f
}
