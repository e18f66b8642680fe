package ledger

import (
	"math/big"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/index"
)

// Request asks for one block of one pool.
type Request struct {
	Pool PoolID
	// Begins describes the address space that Pool names. Its first block begins the address space. Nil: Pool is no
	// address space, or has begun.
	Begins *Derived
	Holder Holder
	// Length is the prefix length wanted. Ignored when Exact is valid.
	Length int
	// Exact asks for this prefix and no other. The zero Prefix asks for any.
	Exact    netip.Prefix
	Strategy index.Strategy // zero value: FirstFit
	Class    string
	Policy   ReclaimPolicy // zero value: Delete
	// Since is when the claim was made. It is the claim's place among those
	// that wait for room: the oldest that fits is served first.
	Since time.Time

	// Until is the end of the lease, for Adopt of a retained block. Zero: it has none.
	Until time.Time

	// Limits bound how many addresses the holder's workspace may have, this block included. The zero value sets no limit.
	Limits Limits
	// Slice marks a block that the system gives to a workspace by itself: no limit
	// counts it.
	Slice bool
}

// Limits bound how many addresses the workspace of a request may hold in all. Nil is
// no limit. The caller must not change the numbers after the request.
type Limits struct {
	// Pool bounds the addresses of the request's pool, by any class.
	Pool *big.Int
	// Class bounds the addresses by the request's class, of any pool.
	Class *big.Int
}

// Lease is the lease of a retained block.
type Lease struct {
	Holder Holder // the former claim
	Until  time.Time
}
