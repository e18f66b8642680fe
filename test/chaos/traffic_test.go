package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// windows are the pools from which callers bind: two that overlap in one space, one with an exclusion, one of IPv6,
// and one that has only address spaces. They are small, so that they fill up.
var windows = []ledger.Pool{
	{ID: "a", Cluster: "platform", Name: "a", Space: "domain", CIDR: netip.MustParsePrefix("10.1.0.0/25")},
	{ID: "b", Cluster: "platform", Name: "b", Space: "domain", CIDR: netip.MustParsePrefix("10.1.0.64/26")},
	{
		ID: "c", Cluster: "platform", Name: "c", Space: "c", CIDR: netip.MustParsePrefix("10.2.0.0/26"),
		Excluded: []netip.Prefix{netip.MustParsePrefix("10.2.0.0/30")},
	},
	{ID: "six", Cluster: "platform", Name: "six", Space: "six", CIDR: netip.MustParsePrefix("2001:db8::/122")},
	{ID: "apart", Cluster: "platform", Name: "apart", Space: "apart", CIDR: netip.MustParsePrefix("10.3.0.0/26")},
}

func findWindow(id ledger.PoolID) *ledger.Pool {
	for i := range windows {
		if windows[i].ID == id {
			return &windows[i]
		}
	}
	return nil
}

// spaceOf returns the space of a pool. A child pool has a space of its own.
func spaceOf(id ledger.PoolID) ledger.SpaceID {
	if w := findWindow(id); w != nil {
		return w.Space
	}
	return ledger.SpaceID(id)
}

const (
	callers        = 18
	claimsAtOnce   = 40
	childrenAtOnce = 4
	// claims are replaced by new ones from time to time, so that no claim has
	// more unknown outcomes than can be checked.
	generation = 4 * time.Second
)

// operation is a request, and what is known about it.
type operation struct {
	request
	outcome
	Allocator    int
	Call, Return int64 // nanoseconds since the start of the run
}

// traffic is the requests of the callers, and the answers.
type traffic struct {
	seed    uint64
	hosts   []*host
	leads   atomic.Int32 // the host that is asked
	started time.Time

	mu         sync.Mutex
	operations []operation
	last       int
}

func (t *traffic) now() int64 { return time.Since(t.started).Nanoseconds() }

// run lets the callers send requests until the context ends, and waits for the last answers.
func (t *traffic) run(ctx context.Context) {
	var asking sync.WaitGroup
	for i := range callers {
		random := rand.New(rand.NewPCG(t.seed, uint64(i)))
		asking.Go(func() {
			for ctx.Err() == nil {
				t.do(ctx, int(t.leads.Load()), t.choose(random))
				retry.Pause(ctx, time.Duration(random.IntN(4000))*time.Microsecond)
			}
		})
	}
	asking.Wait()
}

// choose draws a request.
func (t *traffic) choose(random *rand.Rand) request {
	apart := windows[len(windows)-1]
	w := windows[random.IntN(len(windows)-1)]
	epoch := t.now() / generation.Nanoseconds()
	r := request{
		Pool: w.ID, Claim: claimID(epoch, random.IntN(claimsAtOnce)),
		Length:   min(w.CIDR.Addr().BitLen(), w.CIDR.Bits()+2+random.IntN(4)),
		Strategy: index.Strategy(random.IntN(3)), Timeout: 10 * time.Second,
	}
	if random.IntN(20) == 0 {
		r.Timeout = time.Duration(random.IntN(5000)) * time.Microsecond
	}
	child, network := child(epoch, random)
	switch n := random.IntN(32); {
	case n < 8:
		r.Do = "bind"
	case n < 9:
		r.Do, r.Pool, r.Length = "bind", child, 31+random.IntN(2)
	case n < 10 && network != "": // only apart has address spaces, as it has no blocks, and overlaps no pool
		r.Do, r.Network, r.Of, r.Pool = "bind", network, apart.ID, ledger.AddressSpaceID(apart.ID, "tenant", networkPool(network).Derived.Scope)
		r.Length = apart.CIDR.Bits() + 2 + random.IntN(4)
	case n < 11:
		r.Do, r.Exact = "bind", within(w.CIDR, r.Length, random)
	case n < 16:
		r.Do = "release"
	case n < 18:
		r.Do = "lookup"
	case n < 20:
		r.Do, r.Lease = "retain", time.Duration(random.IntN(1000))*time.Millisecond
	case n >= 24 && n < 28:
		r.Do, r.Former, r.Claim = "hand over", r.Claim, later(r.Claim)
	case n == 28:
		r.Do, r.Claim = "fail", claimID(epoch, random.IntN(claimsAtOnce/4)*4)
	case n > 28:
		r.Do = "expire"
	case n < 22:
		r.Do, r.Pool, r.Length, r.Claim, r.Network = "carve", "a", 28+random.IntN(3), ledger.ClaimID(child), network
	default:
		r.Do, r.Claim, r.Network = retires(network, random), ledger.ClaimID(child), network
	}
	if r.Do == "release" && random.IntN(3) == 0 && epoch > 0 { // what former generations have left behind
		r.Claim = claimID(random.Int64N(epoch), random.IntN(claimsAtOnce))
	}
	if r.mayBeLater() && random.IntN(3) == 0 {
		r.Claim = later(r.Claim)
	}
	return r
}

// mayBeLater reports whether the holder that follows another one of its name may make the request. That holder gets a
// block only by a hand over.
func (r request) mayBeLater() bool {
	return (r.Do == "release" || r.Do == "lookup" || r.Do == "retain" || r.Do == "expire")
}

// allocationIDs are the allocation IDs of a run, by generation and number.
const allocationIDs = "%08x-%04x-8000-8000-000000000000"

func claimName(epoch, n int64) string { return fmt.Sprintf("claim-%d-%d", epoch, n) }

// claimID names a claim of a generation. One in four is bound by an allocation ID.
func claimID(epoch int64, n int) ledger.ClaimID {
	if n%4 == 0 {
		return ledger.ClaimID(fmt.Sprintf(allocationIDs, epoch, n))
	}
	return ledger.ClaimID(claimName(epoch, int64(n)))
}

// within draws a prefix of a window.
func within(window netip.Prefix, length int, random *rand.Rand) netip.Prefix {
	bytes := window.Addr().AsSlice()
	free := window.Addr().BitLen() - window.Bits()
	bytes[len(bytes)-1] |= byte(random.IntN(1 << free))
	addr, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, length).Masked()
}

// do sends a request to an allocator, and notes the answer.
func (t *traffic) do(ctx context.Context, to int, r request) outcome {
	l := t.hosts[to].alive(ctx)
	if l == nil {
		return outcome{Unknown: "the run is over"}
	}
	t.mu.Lock()
	t.last++
	r.ID = t.last
	t.mu.Unlock()
	op := operation{request: r, Allocator: to, Call: t.now()}
	op.outcome = l.do(r)
	op.Return = t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.operations = append(t.operations, op)
	return op.outcome
}
