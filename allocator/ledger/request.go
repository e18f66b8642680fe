package ledger

import (
	"math/big"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/index"
)

// Request asks for one block of one pool.
type Request struct {
	Pool   PoolID
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

	// Until is when the lease of a retained block ends that is adopted; see Adopt. Zero: it has
	// none.
	Until time.Time

	// Limits bound what the holder's workspace may have with this block. The zero
	// value sets none.
	Limits Limits
	// Slice marks a block that the system gives to a workspace unasked: no limit
	// counts it.
	Slice bool
}

// Limits bound how many addresses the workspace of a request may hold, all of its
// blocks taken together. Nil is no limit. The numbers are not to be changed once the
// request was made.
type Limits struct {
	// Pool bounds what it holds of the request's pool, whatever the class.
	Pool *big.Int
	// Class bounds what it holds by the request's class, of whatever pools.
	Class *big.Int
}

// Lease is that of a retained block.
type Lease struct {
	Holder Holder // the claim that it was retained from
	Until  time.Time
}
