package derived

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/internal/plural"
)

const (
	// named is how many occupants of a range a refusal names.
	named = 3
	// looked is how often one DELETE asks the servers for an occupant, at most.
	looked = 64
	// atOnce is how many occupants are asked for at the same time.
	atOnce = 16
	// counted is how many occupants are counted at most.
	counted = 10_000
)

// occupant keeps a range from being released: it is a block inside the range, or another range inside.
type occupant struct {
	ledger.Holder
	retained bool
	ranged   bool
	until    time.Time // until when the CREATE that was answered with the block may succeed; zero: none is in flight
}

func (o occupant) String() string {
	switch {
	case o.ranged:
		return "range claim " + o.Namespace + "/" + o.Name
	case o.Namespace == "":
		return "pool " + o.Name
	case o.retained:
		return "IPAllocation " + o.Namespace + "/" + ipamv1alpha1.AllocationName(o.Namespace, o.Name) +
			", retained from claim " + o.Name
	case !o.until.IsZero():
		return fmt.Sprintf("claim %s/%s, whose CREATE may succeed until %s",
			o.Namespace, o.Name, o.until.UTC().Format(time.RFC3339))
	}
	return "claim " + o.Namespace + "/" + o.Name
}

// inside lists the occupants of a pool and of the pools below it, but no more of them than the constant counted. A pool
// below is an occupant itself only if a claim holds it. The ledger is read only for pools that have a block in memory,
// however many idle pools there are: the transaction that closes the pool notices a block that memory lacks.
func (k *Keeper) inside(ctx context.Context, p ledger.Pool) (found []occupant, err error) {
	for _, q := range append(k.Ranges.Below(p.ID), p) {
		if q.ID != p.ID && q.Derived.Holder.Claim != "" { // the DELETE of that claim may be under way
			found = append(found, occupant{Holder: q.Derived.Holder, ranged: true})
		}
		if !k.Ledger.Pools.MayHold(q.ID) {
			continue
		}
		for b, err := range k.Ledger.Blocks.List(ctx, allocator.ListOptions{Pool: q.ID, Limit: counted}) {
			if err != nil {
				return nil, fmt.Errorf("list the blocks of pool %s: %w", q.Name, err)
			}
			if b.State != ledger.Cooling && !ledger.IsDerived(b.Holder.Claim) {
				found = append(found, k.occupantOf(b))
			}
			if len(found) >= counted {
				return found, nil
			}
		}
	}
	return found, nil
}

// occupantOf returns the occupant that has a block.
func (k *Keeper) occupantOf(b ledger.Block) occupant {
	o := occupant{Holder: b.Holder, retained: b.State == ledger.Retained}
	if promise.Young(b, k.Clock.Now()) && k.Answers.Unseen(b.Holder) {
		o.until = b.BoundAt.Add(promise.Grace)
	}
	return o
}

// guests asks the servers for the occupants of a range, for one DELETE of the range. It asks for a bounded number of
// them, and first for those in the workspace of the DELETE. Not safe for concurrent use.
type guests struct {
	*Closer
	pool  ledger.Pool
	in    ledger.ClusterName
	asks  int                    // how many more occupants may be asked for
	asked map[ledger.ClaimID]int // how often each occupant was asked for
}

// guests returns the guests of a range, for one DELETE in a workspace.
func (c *Closer) guests(p ledger.Pool, in ledger.ClusterName) *guests {
	return &guests{Closer: c, pool: p, in: in, asks: looked, asked: map[ledger.ClaimID]int{}}
}

// next returns the occupants to ask for now: those that were asked for least often, and of these the workspace's own
// first.
func (g *guests) next(inside []occupant) []occupant {
	inside = slices.Clone(inside)
	slices.SortStableFunc(inside, func(a, b occupant) int {
		return cmp.Or(cmp.Compare(g.asked[a.Claim], g.asked[b.Claim]), cmp.Compare(g.away(a), g.away(b)))
	})
	return inside[:min(len(inside), atOnce, g.asks)]
}

// away returns 0 for a claim of the workspace that the range is deleted in, and 1 for any other.
func (g *guests) away(o occupant) int {
	if o.Tenant() == g.in {
		return 0
	}
	return 1
}

// settle asks for the next occupants, settles the releases of those that are gone, and returns all that are left. stays
// reports whether one of those left is known to stay: its claim exists, or its block is retained.
func (g *guests) settle(ctx context.Context) (left []occupant, stays bool, err error) {
	left, err = g.inside(ctx, g.pool)
	if err != nil || len(left) == 0 {
		return left, false, err
	}
	var mu sync.Mutex
	certain := map[ledger.ClaimID]bool{}
	group := errgroup.Group{}
	for _, o := range g.next(left) {
		g.asks--
		g.asked[o.Claim]++
		group.Go(func() error {
			settled, err := g.Releases.SettleWitnessed(ctx, o.Holder)
			mu.Lock()
			defer mu.Unlock()
			certain[o.Claim] = settled && err == nil
			return nil // after an error it is left, but not known to stay
		})
	}
	_ = group.Wait()
	left, err = g.inside(ctx, g.pool)
	return left, slices.ContainsFunc(left, func(o occupant) bool { return certain[o.Claim] }), err
}

// foresee returns what CloseRange would return, and changes nothing. It asks for occupants until it finds one that
// stays.
func (c *Closer) foresee(ctx context.Context, p ledger.Pool, in ledger.ClusterName) (string, error) {
	left, err := c.inside(ctx, p)
	if err != nil {
		return "", err
	}
	g := c.guests(p, in)
	for stays := false; !stays && g.asks > 0 && len(left) > 0; {
		for _, o := range g.next(left) {
			g.asks--
			if gone, err := c.Releases.GoneWitnessed(ctx, o.Holder); err != nil || !gone || o.retained || !o.until.IsZero() {
				stays = true
				break
			}
			left = slices.DeleteFunc(left, func(other occupant) bool { return other.Claim == o.Claim })
		}
	}
	if len(left) == 0 {
		return "", nil
	}
	return say(p, left, in), nil
}

// say writes the refusal of a DELETE because of the occupants that are left in a range.
func say(p ledger.Pool, left []occupant, in ledger.ClusterName) string {
	return fmt.Sprintf("the range %s is in use: release everything allocated inside this range first (%s)",
		p.CIDR, list(left, in))
}

// list describes the occupants of a range: the number of those in the workspace, and the names of some. Of other
// workspaces it says only that they have something inside, and not how much.
func list(left []occupant, in ledger.ClusterName) string {
	var names []string
	own := 0
	for _, o := range left {
		if o.Tenant() == in {
			own++
			names = append(names, o.String())
		}
	}
	if own == 0 {
		return "by others"
	}
	slices.Sort(names)
	names = slices.Compact(names)
	names = names[:min(len(names), named)]
	said := plural.Of(own, "allocation", "allocations") + ", of " + strings.Join(names, ", ")
	if more := own - len(names); more > 0 {
		said += " and " + plural.Of(more, "other", "others")
	}
	if own < len(left) {
		said += ", and by other workspaces"
	}
	return said
}
