package pool

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// The condition InUse names at most this many holders (named), and looks for them among at most this many blocks
// (looked): the status of a pool that others use is written often.
const (
	named  = 10
	looked = 200
)

// usage finds in the ledger what uses a pool. It names holders of the pool's own workspace, and no others.
type usage struct {
	ledger    views.Ledger
	id        ledger.PoolID
	workspace ledger.ClusterName // of the pool
	now       time.Time
	answers   *promise.Answers
	// again is called with the time after which a name may change, even if the ledger does not change; nil: it is not
	// called.
	again func(time.Duration)
	// goes returns when an unused derived pool will be retired. The time is zero while addresses cool in the pool: it
	// stays until their cooldown is over. ok is false if the pool is in use, or stays however long it is unused.
	goes func(ledger.Pool) (at time.Time, ok bool)
}

// use says who uses a pool, or has a block of it.
type use struct {
	words string
	// unstored is true if a CREATE was answered with a block, and its claim was not stored in time.
	unstored bool
}

// describe names what uses a pool: the claim that holds the pool, and the holders of blocks in the pool or its address
// spaces. Then it says how many idle pools have blocks of the pool, and when they go.
func (u usage) describe(ctx context.Context) (use, error) {
	entered, _ := u.ledger.Pools.Get(u.id)
	var names []string
	var idle idlers
	total, late := 0, false
	for _, of := range append(u.ledger.Derived.Spaces(u.id), entered) {
		capacity, _ := u.ledger.Pools.Capacity(of.ID)
		if used := capacity.Blocks - u.idleIn(of.ID); ledger.IsAddressSpace(of.ID) &&
			(of.Derived.Workspace != u.workspace || len(names) >= named || used == 0) {
			total += used // of holders that are not named: there may be ten thousand such address spaces
			continue
		}
		if capacity.Blocks == 0 {
			continue
		}
		own, unused, err := u.holders(ctx, of.ID)
		if err != nil {
			return use{}, err
		}
		for _, h := range own {
			names, late = append(names, h.words), late || h.unstored
		}
		total += capacity.Blocks - unused.many
		idle.add(unused)
	}
	return use{u.words(entered, names[:min(len(names), named)], total, idle) + idle.words(), late}, nil
}

// words says who uses a pool: the claim that holds it, and the holders of its blocks.
func (u usage) words(entered ledger.Pool, names []string, total int, idle idlers) string {
	by := u.keptBy()
	switch {
	case by == "" && total > 0:
		return counted(names, total)
	case by == "" && entered.Derived != nil:
		return "nobody uses the pool: it goes " + u.until(entered, idle) + "when it is deleted"
	case by == "" && idle.many > 0:
		return "nobody uses the pool"
	case by == "":
		return "the pool holds no block"
	case total == 0:
		return by + " holds the pool"
	}
	return fmt.Sprintf("%s holds the pool, and %s", by, counted(names, total))
}

// until says when an unused pool goes by itself; empty: it does not.
func (u usage) until(p ledger.Pool, idle idlers) string {
	at, ok := u.goes(p)
	switch {
	case ok && at.IsZero():
		return "after the addresses that cool in it, or "
	case ok:
		return "at " + clockTime(at) + ", or "
	case idle.many > 0 && !idle.stay:
		return "after the pools inside, or "
	}
	return ""
}

// idlers are the idle pools that have blocks of a pool.
type idlers struct {
	many int
	last time.Time // when the last of them goes
	stay bool      // some do not go by themselves
	cool bool      // addresses cool in some
}

func (i *idlers) add(o idlers) {
	i.many, i.stay, i.cool = i.many+o.many, i.stay || o.stay, i.cool || o.cool
	if o.last.After(i.last) {
		i.last = o.last
	}
}

func (i *idlers) words() string {
	has := "; " + plural.Of(i.many, "idle pool has a block", "idle pools have blocks") + " of it "
	switch {
	case i.many == 0:
		return ""
	case i.stay:
		return has + "until it is deleted"
	case i.cool:
		return has + "until the addresses in it have cooled"
	}
	return has + "until " + clockTime(i.last)
}

// clockTime writes a time as messages do.
func clockTime(at time.Time) string { return at.UTC().Add(time.Second-1).Format("15:04:05") + " UTC" }

// idleIn counts the idle pools in an address space, as of memory.
func (u usage) idleIn(space ledger.PoolID) (idle int) {
	for _, below := range u.ledger.Derived.Below(space) {
		if below.Parent == space && u.idle(below.ID) {
			idle++
		}
	}
	return idle
}

// fullest returns the figures of a pool's fullest address space, and how many address spaces the pool has. Without
// address spaces it returns the pool's own figures.
func (u usage) fullest(own ledger.Capacity) (of ledger.Capacity, spaces int32) {
	of = own
	for _, s := range u.ledger.Derived.Spaces(u.id) {
		spaces++
		if c, ok := u.ledger.Pools.Capacity(s.ID); ok && (spaces == 1 || c.Allocated.Cmp(of.Allocated) > 0) {
			of = c
		}
	}
	return of, spaces
}

// keptBy names the claim that holds a pool as a whole; empty: no claim does.
func (u usage) keptBy() string {
	entered, _ := u.ledger.Pools.Get(u.id)
	if entered.Derived == nil || entered.Derived.Holder.Claim == "" {
		return ""
	}
	if h := entered.Derived.Holder; h.Tenant() == u.workspace {
		return "claim " + h.Namespace + "/" + h.Name
	}
	return "a claim of another workspace"
}

// holders lists holders of the pool's own workspace, and counts the idle pools. It does not list a block that cannot be
// read: the caller counts that block among the others.
func (u usage) holders(ctx context.Context, id ledger.PoolID) (own []use, idle idlers, err error) {
	for b, err := range u.ledger.Blocks.List(ctx, allocator.ListOptions{Pool: id, Limit: looked}) {
		switch {
		case err != nil && !ledger.Unreadable(err):
			return nil, idlers{}, err
		case err != nil, b.State == ledger.Cooling:
		case ledger.IsDerived(b.Holder.Claim) && u.idle(ledger.PoolID(b.Holder.Claim)):
			idle.add(u.idler(ledger.PoolID(b.Holder.Claim)))
		case b.Holder.Tenant() == u.workspace && len(own) < named:
			own = append(own, u.name(b))
		}
	}
	return own, idle, nil
}

// idle reports whether the system has made a pool, and nobody uses it.
func (u usage) idle(id ledger.PoolID) bool {
	known, ok := u.ledger.Pools.Get(id)
	return ok && known.Derived != nil && known.Derived.Holder.Claim == "" && !u.ledger.Pools.InUse(id)
}

// idler returns one idle pool as idlers.
func (u usage) idler(id ledger.PoolID) idlers {
	known, _ := u.ledger.Pools.Get(id)
	at, ok := u.goes(known)
	return idlers{many: 1, last: at, stay: !ok, cool: ok && at.IsZero()}
}

// counted describes the holders of a pool: those of its own workspace by name, all others by their number.
func counted(names []string, total int) string {
	slices.Sort(names)
	said := "the pool holds 1 block"
	if total > 1 {
		said = fmt.Sprintf("the pool holds %d blocks", total)
	}
	if len(names) > 0 {
		said += ", of " + strings.Join(names, ", ")
	}
	if others := total - len(names); others > 0 && len(names) > 0 {
		said += fmt.Sprintf(" and %d others", others)
	}
	return said
}

// A CREATE that was answered usually stores its claim within unhurried. If the CREATE failed after its answer, by a
// quota or because it took too long, its block is free by overdue: after promise.Grace, at the next look of the sweep.
const (
	unhurried = 10 * time.Second
	overdue   = 2 * time.Minute
)

// name names the holder of a block. If the holder is a claim that was answered, and was not stored in time, name says
// when the block is free.
func (u usage) name(b ledger.Block) use {
	if !u.answers.Unseen(b.Holder) {
		return use{words: holderName(b)}
	}
	until := b.BoundAt.Add(overdue)
	if wait := unhurried - u.now.Sub(b.BoundAt); wait > 0 {
		u.lookAgain(wait)
		return use{words: holderName(b)}
	}
	u.lookAgain(max(until.Sub(u.now), unhurried))
	return use{holderName(b) + " (answered, not stored yet: free by " + until.UTC().Format("15:04:05") + ")", true}
}

func (u usage) lookAgain(wait time.Duration) {
	if u.again != nil {
		u.again(wait)
	}
}

// holderName names the object whose deletion releases the block.
func holderName(b ledger.Block) string {
	h := b.Holder
	switch {
	case h.Namespace == "":
		return "pool " + h.Name
	case b.State == ledger.Retained:
		return "IPAllocation " + h.Namespace + "/" + ipamv1alpha1.AllocationName(h.Namespace, h.Name) +
			", retained from claim " + h.Name
	}
	return "claim " + h.Namespace + "/" + h.Name
}

// gateway describes the fault of a pool's gateway, now that the block of the pool is known; empty: there is no fault.
// If a gateway was moved to an address in use, the address stays with its holder. gateway names the holder if it is of
// the pool's own workspace.
func (u usage) gateway(
	ctx context.Context, pool *ipamv1alpha1.IPPool, entered ledger.Pool, capacity ledger.Capacity,
) (string, error) {
	router, err := pool.Spec.Router(entered.CIDR)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is said in the status
	}
	if capacity.Stranded == 0 || !entered.CIDR.Contains(router) {
		return "", nil
	}
	blocks, err := u.ledger.Pools.Overlapping(ctx, u.id, netip.PrefixFrom(router, router.BitLen()))
	if err != nil && !ledger.Unreadable(err) {
		return "", fmt.Errorf("find the holder of the gateway of pool %s: %w", pool.Name, err)
	}
	for _, b := range blocks {
		if b.Pool != u.id || b.State == ledger.Cooling { // the block of a child pool is of its parent
			continue
		}
		holder := "another workspace"
		if b.Holder.Tenant() == u.workspace {
			holder = holderName(b)
		}
		return fmt.Sprintf("spec.gateway %s lies in %s, which %s holds: release that, or write another gateway",
			router, b.Prefix, holder), nil
	}
	return "", nil
}
