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
	// named is how many of those inside a range are named.
	named = 3
	// looked is how many times servers are asked for one of them at most, for one DELETE.
	looked = 64
	// atOnce is how many of them are asked for at the same time.
	atOnce = 16
	// counted is how many of them are counted.
	counted = 10_000
)

// occupant is what keeps a range from being released: a block inside, or a range.
type occupant struct {
	ledger.Holder
	retained bool
	ranged   bool
	until    time.Time // when no CREATE that was answered with the block can succeed any more; zero: none is in flight
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

// inside lists the claims that have something in a pool, or in a pool below it. A pool in between that is there for
// others alone does not count. The ledger is read for pools alone that have a block by memory, however many others
// there are: the transaction that closes the pool notices a block that memory lacks.
func (k *Keeper) inside(ctx context.Context, p ledger.Pool) (found []occupant, err error) {
	for _, q := range append(k.Ranges.Below(p.ID), p) {
		if q.ID != p.ID && q.Derived.Holder.Claim != "" { // whose DELETE may be under way
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

// occupantOf returns who holds a block inside a range.
func (k *Keeper) occupantOf(b ledger.Block) occupant {
	o := occupant{Holder: b.Holder, retained: b.State == ledger.Retained}
	if promise.Young(b, k.Clock.Now()) && k.Answers.Unseen(b.Holder) {
		o.until = b.BoundAt.Add(promise.Grace)
	}
	return o
}

// guests are the claims inside a range that is deleted. Servers are asked for a bounded number of them, and for those
// of the range's owner first: the others may be of other workspaces. They are of one DELETE, and are not safe for
// concurrent use.
type guests struct {
	*Closer
	pool  ledger.Pool
	in    ledger.ClusterName
	asks  int                    // that are left
	asked map[ledger.ClaimID]int // how often each was
}

// guests returns those inside a range of a workspace, for one DELETE.
func (c *Closer) guests(p ledger.Pool, in ledger.ClusterName) *guests {
	return &guests{Closer: c, pool: p, in: in, asks: looked, asked: map[ledger.ClaimID]int{}}
}

// next returns those inside a pool who are asked for next.
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

// settle settles the releases of some of those inside that are gone, asked live, and returns all who are left. stays
// reports whether one of them is there to stay, as far as is known now.
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
			return nil // it stays, as far as is known
		})
	}
	_ = group.Wait()
	left, err = g.inside(ctx, g.pool)
	return left, slices.ContainsFunc(left, func(o occupant) bool { return certain[o.Claim] }), err
}

// foresee says what CloseRange would say, and changes nothing. It asks for those inside until one is there.
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

// say says what keeps a range from being released.
func say(p ledger.Pool, left []occupant, in ledger.ClusterName) string {
	return fmt.Sprintf("the range %s is in use: release everything allocated inside this range first (%s)",
		p.CIDR, list(left, in))
}

// list lists what is inside a range: what there is of the workspace by name and number, and that others have something
// there. How much others have, the workspace is not told.
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
