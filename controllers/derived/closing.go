package derived

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

const (
	// glance is the pause between two looks for a range that is not in memory yet.
	glance = 50 * time.Millisecond
	// followTime is how long memory may take to follow the writes of another replica.
	followTime = 500 * time.Millisecond
)

// Releases settles the releases of claims that may be gone.
type Releases interface {
	Settle(ctx context.Context, h ledger.Holder) (bool, error)
	SettleWitnessed(ctx context.Context, h ledger.Holder) (bool, error)
	GoneWitnessed(ctx context.Context, h ledger.Holder) (bool, error)
}

// Closer lets range claims be deleted. All fields are required. It is safe for concurrent use.
type Closer struct {
	*Keeper
	Releases Releases
	// HasAll reports whether the ledger has every pool that the status of the claim may name, and has lost nothing of
	// these pools.
	HasAll func(context.Context, ledger.ClusterName, client.Object) (bool, error)
	// InOffice returns an error unless this process is the writer of the ledger. Another writer may know of a range that
	// this process's memory lacks.
	InOffice func(context.Context) error
}

var _ door.Closer = (*Closer)(nil)

// CloseRange implements door.Closer. For a claim that is Terminating it closes nothing, because the first DELETE has
// closed the range. Otherwise the claim's owner could keep the range of a shared network closed by a finalizer and more
// DELETEs, and so keep other workspaces out.
func (c *Closer) CloseRange(
	ctx context.Context, in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, dry bool,
) (inside string, err error) {
	if !claim.DeletionTimestamp.IsZero() {
		return "", nil
	}
	p, held, err := c.held(ctx, in, claim)
	if err != nil {
		return "", err
	}
	if !held {
		return "", c.InOffice(ctx)
	}
	if dry {
		return c.foresee(ctx, p, in.Tenant(claim.Namespace))
	}
	by := in.Tenant(claim.Namespace)
	guests := c.guests(p, by)
	var last []occupant
	err = door.Await(ctx, func(ctx context.Context) (bool, error) {
		left, stays, err := guests.settle(ctx)
		if ctx.Err() != nil {
			return false, err
		}
		if last = left; err != nil || len(left) > 0 {
			return stays, err
		}
		err = c.close(ctx, p, p.Derived.Holder.Claim)
		if errors.Is(err, ledger.ErrPoolInUse) || errors.Is(err, ledger.ErrChanged) {
			return false, nil // another claim uses the range meanwhile
		}
		return err == nil, err
	})
	switch {
	case len(last) == 0:
		return "", err
	case err != nil: // for example, a CREATE that was answered with a block may still succeed, though its claim is gone
		return fmt.Sprintf("nobody can tell now whether the range %s is in use: delete the claim again later (%s)",
			p.CIDR, list(last, by)), err
	}
	return say(p, last, by), nil
}

// held finds the pool that a claim holds. If the claim shows a range that it does not hold, held waits a moment for
// memory to follow other replicas. It then fails with errLost if the ledger may have lost the pool of that range.
func (c *Closer) held(
	ctx context.Context, in ledger.ClusterName, claim *ipamv1alpha1.IPClaim,
) (p ledger.Pool, ok bool, err error) {
	find := func(context.Context) (bool, error) {
		p, ok = c.Ranges.Held(promise.IDOf(in, claim))
		return ok || claim.Status.AllocatedCIDR == "", nil
	}
	_ = poll.PollUntilContextTimeout(ctx, glance, followTime, true, find) // a claim may show a range that it does not hold
	if !ok && claim.Status.AllocatedCIDR != "" {
		if all, err := c.HasAll(ctx, in, claim); err != nil || !all {
			return p, false, errors.Join(errLost, err)
		}
		_, _ = find(ctx) // recovery may have given the range back meanwhile
	}
	return p, ok, ctx.Err()
}

// close retires the idle pools below an empty range, closes the range, and deletes its IPPool. The pool of the range is
// retired when the claim is gone. If close fails, it opens the range again, unless the range was closed before. It
// fails with ErrChanged if another caller has opened the range meanwhile, and with ErrDeposed if another process has
// become the writer of the ledger: that process finds the range open, and may have bound a block in it.
//
// The DELETEs of a range take turns. If many closed the range at once, each would close it until another time. That
// would end the closing of the others, and all would begin again.
func (c *Closer) close(ctx context.Context, p ledger.Pool, by ledger.ClaimID) error {
	if err := c.RetireBelow(ctx, p.ID); err != nil {
		return err
	}
	caller := ctx
	return c.published.alone(ctx, p.ID, func(ctx context.Context) error {
		until := c.grace()
		first, err := c.begin(ctx, p, by, until)
		if err != nil {
			return err
		}
		if err = c.remove(ctx, caller, p); err == nil {
			err = cmp.Or(c.confirm(ctx, p, until), caller.Err())
		}
		if err != nil && first {
			return errors.Join(err, c.reopen(ctx, p, until))
		}
		if err != nil {
			return err
		}
		log.FromContext(ctx).Info("range closed", "cluster", p.Cluster, "pool", p.Name, "prefix", p.CIDR)
		return nil
	})
}

// confirm returns an error unless the pool is closed until that time, and this process is the writer of the ledger.
func (c *Closer) confirm(ctx context.Context, p ledger.Pool, until time.Time) error {
	if err := c.Ranges.Confirm(ctx, p.ID, until); err != nil {
		return fmt.Errorf("close pool %s: %w", p.Name, err)
	}
	return nil
}

// Replace retires a pool that nobody uses, and the pools below it, so that another pool can be made for its scope. It
// fails with ledger.ErrPoolInUse or ledger.ErrChanged if one of these pools is in use.
func (c *Closer) Replace(ctx context.Context, p ledger.Pool) error {
	if err := c.RetireBelow(ctx, p.ID); err != nil {
		return err
	}
	return c.Retire(ctx, p, "")
}
