package allocator

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
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

	adopts   bool // a published record says so: exclusions and frost do not count
	reserves bool // the holder is a reservation
}

// holding is what a request becomes when it is granted.
func (r Request) holding(now time.Time) store.Holding {
	state := Bound
	if r.reserves {
		state = Reserved
	}
	return store.Holding{
		Pool: r.Pool, Claim: r.Holder.Claim, Cluster: r.Holder.Cluster, Namespace: r.Holder.Namespace, Name: r.Holder.Name,
		Class: r.Class, Policy: cmp.Or(r.Policy, Delete), State: state, Slice: r.Slice, BoundAt: store.Stamped(now),
	}
}
