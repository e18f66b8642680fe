package derived

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// young is the age up to which the cache is not asked for the IPPool of a pool. The cache may still show the IPPool of
// a former pool of the same name, or the IPPool that was deleted when the pool was closed.
const young = 10 * time.Second

// Ranges are the derived pools. allocator.Derived has these methods.
type Ranges interface {
	Held(by ledger.ClaimID) (ledger.Pool, bool)
	Hand(ctx context.Context, id ledger.PoolID, from ledger.ClaimID, to ledger.Holder) (ok bool, err error)
	Drop(ctx context.Context, id ledger.PoolID, by ledger.ClaimID, since time.Time) error
	Below(id ledger.PoolID) []ledger.Pool
	Begin(ctx context.Context, id ledger.PoolID, by ledger.ClaimID, until time.Time) (first bool, err error)
	Confirm(ctx context.Context, id ledger.PoolID, until time.Time) error
	Reopen(ctx context.Context, id ledger.PoolID, until time.Time) error
	Retire(ctx context.Context, id ledger.PoolID, by ledger.ClaimID) error
	All() iter.Seq[ledger.Pool]
}

// Oracle asks the servers for an IPPool or a claim.
type Oracle interface {
	Holder(ctx context.Context, h ledger.Holder) (live.Answer, error)
}

// Keeper publishes derived pools, and retires them. All exported fields are required. It is safe for concurrent use.
type Keeper struct {
	Ledger  views.Ledger
	Ranges  Ranges
	Catalog *catalog.Catalog
	Oracle  Oracle
	// Departed reports whether a workspace's binding was seen to go, and no other binding has come since.
	Departed func(ledger.ClusterName) bool
	// Compare compares the ledger with the status of a pool's IPPool. It reports whether the ledger has lost nothing of
	// the pool.
	Compare func(context.Context, ledger.PoolID) (bool, error)
	// Answers are the CREATEs that this process has answered. Nil: none.
	Answers *promise.Answers
	Clock   clock.PassiveClock
	// Since is when this process began to close pools. No other process has closed a pool that was made later.
	Since time.Time

	published published
	absences  live.Absences
}

// sees reports whether the IPPool of a derived pool is known to exist. It sends no request.
func (k *Keeper) sees(ctx context.Context, p ledger.Pool) (bool, error) {
	now := k.Clock.Now()
	if k.published.has(p, now.Add(-2*young)) {
		return true, nil
	}
	if k.Clock.Since(p.RegisteredAt) < young || k.published.lostLately(p.ID, now) {
		return false, nil
	}
	cl, err := k.cluster(ctx, p)
	return err == nil && k.shows(ctx, cl.GetCache(), p) == ours, err
}

func (k *Keeper) cluster(ctx context.Context, p ledger.Pool) (cluster.Cluster, error) {
	cl, err := k.Catalog.Clusters.GetCluster(ctx, k.Catalog.Directory.Engaged(p.Cluster))
	if err != nil {
		return nil, fmt.Errorf("publish pool %s: %w", p.Name, err)
	}
	return cl, nil
}

// publish creates the IPPool of a pool. It fails with ledger.ErrUnknownPool if the pool is gone meanwhile, and with
// *ledger.ReleasingError if the pool is closed.
func (k *Keeper) publish(ctx context.Context, p ledger.Pool) error {
	cl, err := k.cluster(ctx, p)
	if err != nil {
		return err
	}
	workspace, cache := cl.GetClient(), cl.GetCache()
	begun, found := k.Clock.Now(), none
	err = k.published.alone(ctx, p.ID, func(ctx context.Context) (err error) {
		if k.published.has(p, begun) { // another caller has just created it
			return nil
		}
		if found, err = k.create(ctx, workspace, cache, p); err == nil && found != anothers {
			k.published.add(p, k.Clock.Now())
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("publish pool %s: %w", p.Name, err)
	case found == anothers:
		return k.yield(ctx, p)
	}
	return nil
}

// create creates the IPPool of a pool that is open in the ledger. If an IPPool of that name exists, create returns
// whose it is, as the cache shows. It returns none if it has created the IPPool, or if the cache lags behind.
func (k *Keeper) create(
	ctx context.Context, workspace client.Client, cache client.Reader, p ledger.Pool,
) (sight, error) {
	if now, ok := k.Ledger.Pools.Get(p.ID); !ok {
		return none, ledger.ErrUnknownPool
	} else if now.Closed() {
		return none, &ledger.ReleasingError{Pool: p.ID}
	}
	object, err := k.object(ctx, p)
	if err == nil {
		err = workspace.Create(ctx, object)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return k.shows(ctx, cache, p), nil
	case err != nil:
		return none, err
	}
	log.FromContext(ctx).Info("pool published", "cluster", p.Cluster, "pool", p.Name, "prefix", p.CIDR)
	return none, nil
}

// yield handles a pool whose name is taken by another IPPool, and always returns an error. If another derived pool has
// that IPPool, both pools were made at once, each before the other's name was known. yield then retires the pool, and
// the next CREATE makes it under a longer name. No CREATE was answered with a block of the retired pool, because it had
// no IPPool.
func (k *Keeper) yield(ctx context.Context, p ledger.Pool) error {
	err := fmt.Errorf("publish pool %s: another IPPool has its name; delete that", p.Name)
	if now, ok := k.Ledger.Pools.Get(p.ID); ok && len(k.Ledger.Derived.Named(p.Cluster, p.Name)) > 1 {
		if retired := k.Retire(ctx, now, now.Derived.Holder.Claim); retired != nil {
			return errors.Join(err, retired)
		}
		return fmt.Errorf("publish pool %s: %w, as another one has its name", p.Name, ledger.ErrUnknownPool)
	}
	return err
}

// sight says whose IPPool the cache shows under the name of a pool.
type sight int

const (
	none sight = iota // nobody's, or the cache lags behind
	ours
	anothers
)

func (k *Keeper) shows(ctx context.Context, cache client.Reader, p ledger.Pool) sight {
	shown := &ipamv1alpha1.IPPool{}
	switch err := cache.Get(ctx, client.ObjectKey{Name: p.Name}, shown); {
	case err != nil:
		return none
	case catalog.Shows(shown, p.Cluster, p):
		return ours
	}
	return anothers
}

// errUnseen: no server says whether the IPPool of a pool is there.
var errUnseen = errors.New("no server says whether the IPPool is there")

// seek reads the IPPool of a pool live, and returns it with a client of its workspace; nil: there is none. It fails
// with errUnseen if no server can tell. The pool's ID is no object's UID, so the answer is never live.Alive.
func (k *Keeper) seek(ctx context.Context, p ledger.Pool) (*ipamv1alpha1.IPPool, client.Client, error) {
	answer, err := k.Oracle.Holder(ctx, ledger.Holder{Claim: ledger.ClaimID(p.ID), Cluster: p.Cluster, Name: p.Name})
	if err != nil {
		return nil, nil, fmt.Errorf("look for IPPool %s: %w", p.Name, err)
	}
	left := k.absences.Confirm(p.Cluster, answer.Verdict, k.Clock.Now()) && answer.Covers(p.RegisteredAt)
	switch {
	case left, (answer.Verdict == live.Unbound || answer.Verdict == live.NoEndpoint) && k.Departed(p.Cluster):
		return nil, nil, nil // kcp has deleted all that was bound there
	case answer.Verdict != live.Gone:
		return nil, nil, fmt.Errorf("IPPool %s: %w", p.Name, errUnseen)
	}
	object, there := answer.Object.(*ipamv1alpha1.IPPool)
	if !there || !catalog.Shows(object, p.Cluster, p) {
		return nil, nil, nil
	}
	return object, answer.Client, nil
}

// errLost: the ledger may have lost blocks of the pool, which then seems to be empty.
var errLost = errors.New("the ledger may have lost blocks of the pool")

// grace returns the time by which a DELETE that is admitted now has succeeded or failed.
func (k *Keeper) grace() time.Time { return k.Clock.Now().Add(promise.Grace) }

// begin closes an empty pool until that time, and reports whether the pool was open before. by is the claim that has to
// hold the pool; empty: no claim may hold it. If the ledger was not compared with the pool's IPPool yet, begin compares
// them first, and fails with errLost if the ledger has lost something. Without an IPPool, no block of the pool was
// published: a CREATE is answered only when the IPPool is there.
func (k *Keeper) begin(ctx context.Context, p ledger.Pool, by ledger.ClaimID, until time.Time) (bool, error) {
	if k.Ledger.Recovery.Frozen(p.ID) {
		object, _, err := k.seek(ctx, p)
		if err != nil {
			return false, err
		}
		if object != nil {
			whole, err := k.Compare(ctx, p.ID)
			if err != nil || !whole {
				return false, errors.Join(fmt.Errorf("close pool %s: %w", p.Name, errLost), err)
			}
		}
	}
	first, err := k.Ranges.Begin(ctx, p.ID, by, until)
	if err != nil {
		return first, fmt.Errorf("close pool %s: %w", p.Name, err)
	}
	return first, nil
}

// reopen opens a pool that was closed until that time. The IPPool of the pool may be gone. reopen goes on for at most
// followTime after ctx has ended.
func (k *Keeper) reopen(ctx context.Context, p ledger.Pool, until time.Time) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followTime)
	defer cancel()
	if err := k.Ranges.Reopen(ctx, p.ID, until); err != nil {
		return fmt.Errorf("open pool %s again: %w", p.Name, err)
	}
	k.published.lose(p, k.Clock.Now())
	return nil
}

// unpublish deletes the IPPool of a closed pool. It fails if the IPPool may still be there, but not if the pool is open
// again.
func (k *Keeper) unpublish(ctx context.Context, p ledger.Pool) error {
	caller := ctx
	return k.published.alone(ctx, p.ID, func(ctx context.Context) error { return k.remove(ctx, caller, p) })
}

// remove does what unpublish does, within alone, unless the context of the caller has ended.
func (k *Keeper) remove(ctx, caller context.Context, p ledger.Pool) error {
	object, workspace, err := k.seek(ctx, p)
	if err == nil {
		err = caller.Err() // else the caller has gone, and may have opened the pool again
	}
	if err != nil || k.again(p) {
		return err
	}
	k.published.lose(p, k.Clock.Now())
	if object == nil {
		return nil
	}
	err = workspace.Delete(ctx, object, client.Preconditions{UID: &object.UID})
	if absent.Object(err, "ippools", p.Name) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete IPPool %s: %w", p.Name, err)
	}
	return nil
}

// again reports whether another caller has opened a closed pool again, or has retired it and made it again. Then its
// IPPool is in use.
func (k *Keeper) again(p ledger.Pool) bool {
	now, ok := k.Ledger.Pools.Get(p.ID)
	return ok && (!now.Closed() || !now.RegisteredAt.Equal(p.RegisteredAt))
}

// RetireClosed retires a closed pool. by is the claim that held it, and is gone; empty: it was closed because nobody
// holds it. No block is bound in a closed pool. If the pool is in use nevertheless, it got blocks back after a loss of
// the ledger: RetireClosed opens the pool again, and ends the hold.
func (k *Keeper) RetireClosed(ctx context.Context, id ledger.PoolID, by ledger.ClaimID) error {
	p, ok := k.Ledger.Pools.Get(id)
	if !ok {
		return nil
	}
	err := k.Retire(ctx, p, by)
	if !errors.Is(err, ledger.ErrPoolInUse) {
		return err
	}
	if err := k.Ranges.Drop(ctx, id, by, time.Time{}); err != nil {
		return fmt.Errorf("open pool %s again: %w", p.Name, err)
	}
	k.published.lose(p, k.Clock.Now())
	log.FromContext(ctx).Info("pool opened again, as it is in use", "cluster", p.Cluster, "pool", p.Name, "prefix", p.CIDR)
	return nil
}

// Retire deletes the IPPool of a derived pool, and then removes the pool from the ledger. by is the claim that has to
// hold the pool; empty: no claim may hold it. Otherwise Retire fails with ledger.ErrChanged. It fails with
// ledger.ErrPoolInUse if the pool is in use.
func (k *Keeper) Retire(ctx context.Context, p ledger.Pool, by ledger.ClaimID) error {
	_, err := k.begin(ctx, p, by, k.grace())
	if errors.Is(err, ledger.ErrUnknownPool) {
		return nil
	}
	if err != nil {
		return err
	}
	p, closed := k.Ledger.Pools.Get(p.ID) // it may have been made again since the caller found it
	if !closed {
		return nil
	}
	if err := k.unpublish(ctx, p); err != nil || k.again(p) {
		return err // after an error the pool stays closed, and is requeued
	}
	if err := k.Ranges.Retire(ctx, p.ID, by); err != nil {
		return fmt.Errorf("retire pool %s: %w", p.Name, err)
	}
	log.FromContext(ctx).Info("pool retired", "cluster", p.Cluster, "pool", p.Name, "prefix", p.CIDR)
	return nil
}

// RetireBelow retires the derived pools below a pool, each before its parent. It fails as Retire does if one of them is
// in use. The address spaces of the retired pools go with them. The address spaces of the pool itself stay with it, and
// keep their cooldowns.
func (k *Keeper) RetireBelow(ctx context.Context, id ledger.PoolID) error {
	for _, below := range k.Ranges.Below(id) {
		if ledger.IsDerived(below.ID) {
			if err := k.Retire(ctx, below, ""); err != nil {
				return err
			}
		}
	}
	return nil
}
