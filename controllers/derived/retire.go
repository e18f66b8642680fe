package derived

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/internal/plural"
)

var _ door.Retirer = (*Closer)(nil)

// RetireClass implements door.Retirer. A pool that nobody uses does not count: it is retired by itself. A closed range
// is retired first, if a server says that its claim is gone.
func (c *Closer) RetireClass(ctx context.Context, class string) (used string, err error) {
	many := 0
	for _, p := range slices.Collect(c.Ranges.All()) {
		if p.Derived.Class != class || !ledger.IsDerived(p.ID) || !c.used(p) {
			continue
		}
		if p.Closed() {
			if _, err := c.step(ctx, p, facts{shown: true}); err != nil {
				return "", fmt.Errorf("retire pool %s: %w", p.Name, err)
			}
		}
		if now, ok := c.Ledger.Pools.Get(p.ID); ok && c.used(now) {
			many++
		}
	}
	if many > 0 {
		return fmt.Sprintf("class %q is in use: claims hold %s that it has made, or live inside: "+
			"release these claims first; if you just did, try again in a second",
			class, plural.Of(many, "pool", "pools")), nil
	}
	for p := range c.Ranges.All() {
		if p.Derived.Class == class && c.Ledger.Recovery.Frozen(p.ID) {
			return "", fmt.Errorf("pool %s: %w", p.Name, errLost)
		}
	}
	return "", c.InOffice(ctx)
}

// used reports whether a claim holds a pool, or has a block in it, as of memory.
func (c *Closer) used(p ledger.Pool) bool {
	return p.Derived.Holder.Claim != "" || c.Ledger.Pools.InUse(p.ID)
}

// RetirePool implements door.Retirer. It closes the pool of an IPPool that is about to be deleted, and the Controller
// retires the pool when the IPPool is gone. If the DELETE fails, the Controller deletes the IPPool itself, because
// nobody uses the pool.
func (c *Closer) RetirePool(
	ctx context.Context, in ledger.ClusterName, pool *ipamv1alpha1.IPPool, dry bool,
) (string, error) {
	const used = "this pool was made by its class for a scope, and is in use: " +
		"delete the IPClaim with target ScopeRange that holds it, and the claims inside"
	id, ok := catalog.IDOf(c.Ledger.Pools, pool, in)
	p, known := c.Ledger.Pools.Get(id)
	switch {
	case !ok || !known: // the Controller clears it
		return "", c.InOffice(ctx)
	case c.used(p):
		return used, nil
	case dry:
		return "", nil
	}
	err := c.RetireBelow(ctx, id)
	if err == nil {
		_, err = c.begin(ctx, p, "", c.grace())
	}
	switch {
	case errors.Is(err, ledger.ErrPoolInUse), errors.Is(err, ledger.ErrChanged):
		return used, nil // a claim uses it meanwhile
	case errors.Is(err, ledger.ErrUnknownPool):
		return "", nil
	case err != nil:
		return "", err
	}
	log.FromContext(ctx).Info("idle pool closed for its DELETE", "cluster", in, "pool", p.Name, "prefix", p.CIDR)
	return "", nil
}

// Goes returns when an unused pool will be retired, if no claim uses it before. The time is zero while addresses cool
// in the pool, because the pool stays until their cooldown is over. ok is false if the pool is in use, or if it stays
// however long it is unused.
func (c *Controller) Goes(p ledger.Pool) (at time.Time, ok bool) {
	c.watch(p)
	after, never := c.stays(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if seen, idle := c.idle[p.ID]; idle {
		return seen.since.Add(after), !never
	}
	unused := p.Derived.Holder.Claim == "" && !p.Closed() && !c.Ledger.Pools.InUse(p.ID)
	return time.Time{}, unused && !never && catalog.Cools(c.Ledger.Pools, c.Ranges, p)
}
