package recover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Kind is the kind of a finding. The list of kinds is closed; docs/verify.md explains each.
type Kind string

// Faults in the ledger by itself.
const (
	// OverlappingBlocks: two blocks of a space have an address in common.
	OverlappingBlocks Kind = "OverlappingBlocks"
	// OverlappingPools: two root pools of a workspace overlap, and share no space.
	OverlappingPools Kind = "OverlappingPools"
	// ClaimKeyMismatch: no claim's key leads to a block, or a claim's key leads to no block.
	ClaimKeyMismatch Kind = "ClaimKeyMismatch"
	// SeveralBlocks: a claim has more than one block.
	SeveralBlocks Kind = "SeveralBlocks"
	// BlockOutsidePool: a block's pool is not registered, or the block does not lie in it.
	BlockOutsidePool Kind = "BlockOutsidePool"
	// ChildWithoutBlock: the parent of a child pool has no block for the child with the child's CIDR.
	ChildWithoutBlock Kind = "ChildWithoutBlock"
	// SpaceWithoutHead: a space has pools or blocks, and no head key, which fences its changes.
	SpaceWithoutHead Kind = "SpaceWithoutHead"
	// BlockOverdue: the cooldown of a block ended long ago, and the block is not free.
	BlockOverdue Kind = "BlockOverdue"
	// HistoryMismatch: the history has two holders of a block at the same time, or a tenure that
	// ends in the future.
	HistoryMismatch Kind = "HistoryMismatch"
	// Unreadable: a key of the ledger is damaged, or of an unknown version; or an object has a value that the API does
	// not allow.
	Unreadable Kind = "Unreadable"
)

// Differences between the ledger and the published objects.
const (
	// ExportGone: the platform has no APIExport. There is no other finding then, because no workspace can be read.
	ExportGone Kind = "ExportGone"
	// ExportReplaced: the APIExport was replaced, and shows none of the objects that the ledger knows. There is no other
	// finding then.
	ExportReplaced Kind = "ExportReplaced"
	// BlockWithoutClaim: the holder of a block, a claim or a child pool, does not exist; or the claim that holds a range
	// does not exist.
	BlockWithoutClaim Kind = "BlockWithoutClaim"
	// ClaimWithoutBlock: a claim shows an address, and the ledger has no block or range of the claim.
	ClaimWithoutBlock Kind = "ClaimWithoutBlock"
	// ClaimMismatch: what a claim shows differs from its block or range.
	ClaimMismatch Kind = "ClaimMismatch"
	// BlockWithoutRecord: a block has no IPAllocation.
	BlockWithoutRecord Kind = "BlockWithoutRecord"
	// RecordWithoutBlock: an IPAllocation records a block that the ledger does not have.
	RecordWithoutBlock Kind = "RecordWithoutBlock"
	// LeaseOverdue: the lease of a retained block ended long ago, and the block was not released.
	LeaseOverdue Kind = "LeaseOverdue"
	// RecordMismatch: what an IPAllocation shows differs from its block.
	RecordMismatch Kind = "RecordMismatch"
	// PoolWithoutObject: a pool is open in the ledger and its IPPool does not exist.
	PoolWithoutObject Kind = "PoolWithoutObject"
	// PoolNotRegistered: an IPPool shows a CIDR, and the ledger does not know the pool.
	PoolNotRegistered Kind = "PoolNotRegistered"
	// PoolMismatch: what an IPPool shows differs from the ledger's pool.
	PoolMismatch Kind = "PoolMismatch"
	// CapacityMismatch: the capacity figures of an IPPool differ from what the ledger counts.
	CapacityMismatch Kind = "CapacityMismatch"
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		OverlappingBlocks, OverlappingPools, ClaimKeyMismatch, SeveralBlocks, BlockOutsidePool,
		ChildWithoutBlock, SpaceWithoutHead, BlockOverdue, HistoryMismatch, Unreadable, ExportGone, ExportReplaced,
		BlockWithoutClaim, ClaimWithoutBlock, ClaimMismatch, BlockWithoutRecord, RecordWithoutBlock,
		LeaseOverdue, RecordMismatch, PoolWithoutObject, PoolNotRegistered, PoolMismatch, CapacityMismatch,
	}
}

// Repair is the safe repair of a finding; empty if there is none.
type Repair string

const (
	// LookAtClaim requeues the claim, so that its IPAllocation and status are written from its block. If the claim has
	// neither a block nor an IPAllocation, the address is removed from its status.
	LookAtClaim Repair = "LookAtClaim"
	// LookAtPool requeues the pool, so that its capacity figures are written again.
	LookAtPool Repair = "LookAtPool"
	// ConfirmRelease looks up the holder live, by the rules of every release. Only if the holder is confirmed to be
	// gone, its IPAllocation is deleted and its block released.
	ConfirmRelease Repair = "ConfirmRelease"
)

// Finding is one fault or difference. Findings are comparable: if two comparisons have equal findings, nothing has
// changed in between.
type Finding struct {
	Kind Kind `json:"kind"`
	// Cluster, Namespace and Name are those of the claim, child pool or pool that the finding is about, as far as they
	// are known. A pool has no namespace.
	Cluster   ledger.ClusterName `json:"cluster,omitempty"`
	Namespace string             `json:"namespace,omitempty"`
	Name      string             `json:"name,omitempty"`
	// UID is the UID or allocation ID of the same claim, or the ID of the same pool.
	UID string `json:"uid,omitempty"`
	// Prefix is the block, or the CIDR of the pool.
	Prefix  string `json:"prefix,omitempty"`
	Message string `json:"message"`
	Repair  Repair `json:"repair,omitempty"`

	revision int64 // of the block; a block that was freed and bound again has another
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
	// Pools and Blocks are the numbers of pools and blocks in the ledger.
	Pools  int `json:"pools"`
	Blocks int `json:"blocks"`
	// Findings are sorted by kind, workspace and name. Never nil.
	Findings []Finding `json:"findings"`
}

// Repairs counts the findings that can be repaired.
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

// by returns the finding with this repair.
func (f Finding) by(repair Repair) Finding {
	f.Repair = repair
	return f
}
