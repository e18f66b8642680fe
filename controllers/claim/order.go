package claim

import (
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/internal/wait"
)

// The ledger orders the claims that wait for room in a pool. Claims that wait until a pool or a class comes are in none
// of its lists. When the pool comes, these claims are woken, the oldest first. This file keeps a younger claim from
// asking the pool before them: the younger claim is set aside, and queued once no older claim is left. If it were
// requeued again and again instead, a thousand claims that wait for one pool would take a thousand passes each.

// errBehind: an older claim of the tenant comes first.
var errBehind = errors.New("an older claim is looked at first")

// behind reports whether an older claim of the tenant must ask a candidate first. Such a claim waits for the candidate,
// or for the class of this claim, was woken, and has not asked since. If the pool has just become ready, it may also be
// a claim that is about to be woken.
func (d *decision) behind(c resolve.Candidate) bool {
	of := topicsOfPool(c.Owner.Cluster, c.Pool)
	return d.r.waiting.wokenBefore(d.tenant(), d.since, append(of, topic{kind: classTopic, name: d.class})) ||
		d.r.announced.lags(c.Pool, d.r.clock) && d.r.waiting.waitsBefore(d.tenant(), d.since, of)
}

// end notes that the pass of a claim has asked a candidate, or has ended. behind says that the pass has ended behind an
// older claim. aside is true if the claim is set aside because of that: an older claim queues it later. If a claim that
// was set aside is behind no claim now, end queues it.
func (r *Reconciler) end(claim mcreconcile.Request, behind bool) (aside bool) {
	aside, next, ok := r.waiting.end(claim, behind)
	if ok {
		r.Queue.Add(next)
	}
	return aside
}

// announced has the UIDs of the ready pools whose waiting claims were woken. The zero value is empty; safe for
// concurrent use.
type announced struct{ pools sync.Map }

// lags reports whether a pool got its CIDR a moment ago, and the claims that wait for it were not woken yet.
func (a *announced) lags(pool *ipamv1alpha1.IPPool, clock clock.PassiveClock) bool {
	ready := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if ready == nil || clock.Since(ready.LastTransitionTime.Time) >= coming {
		return false
	}
	_, has := a.pools.Load(pool.UID)
	return !has
}

// note adds a ready pool, whose waiting claims were woken. If the pool is not ready, note drops it.
func (a *announced) note(pool *ipamv1alpha1.IPPool) {
	if !resolve.Ready(pool) {
		a.drop(pool.UID)
		return
	}
	a.pools.Store(pool.UID, true)
}

func (a *announced) drop(pool types.UID) { a.pools.Delete(pool) }

// due is the only thing that woken claims wait for: their turn to ask a candidate.
type due struct{}

// stage says how far a woken claim has come.
type stage uint8

const (
	queued stage = iota // a pass is to begin
	looked              // a pass has begun
	parked              // a pass has ended behind older claims; the last of these claims queues it
)

// wokenClaim is a claim that was woken.
type wokenClaim = wait.Waiter[mcreconcile.Request, due, stage]

// wake returns the claims that wait for any of the topics, oldest first, and notes them as woken. Until a woken claim
// has asked a candidate, or has ended its pass without asking, the younger claims of its tenant that ask the same pools
// are behind it.
func (w *waiting) wake(topics ...topic) (found []mcreconcile.Request) {
	w.lock()
	defer w.mu.Unlock()
	for c := range w.claims.OldestFirst(topics...).All() {
		w.woken.Put(c.Key, c.Tenant, c.Since, queued, due{})
		found = append(found, c.Key)
	}
	return found
}

// begin notes that a pass begins for a claim.
func (w *waiting) begin(claim mcreconcile.Request) {
	w.lock()
	defer w.mu.Unlock()
	if c := w.woken.Get(claim); c != nil {
		w.move(c, looked)
	}
}

// move notes the stage of a woken claim.
func (w *waiting) move(c *wokenClaim, to stage) { w.woken.Put(c.Key, c.Tenant, c.Since, to, due{}) }

// made notes when the claim of a pass was created. The claim that was woken under this name may be a former claim, and
// older. So a claim that was set aside behind the former claim may be behind no claim now. Then made returns that claim
// as next, to be queued, and ok is true.
func (w *waiting) made(claim mcreconcile.Request, since time.Time) (next mcreconcile.Request, ok bool) {
	w.lock()
	defer w.mu.Unlock()
	c := w.woken.Get(claim)
	if c == nil || c.Since.Equal(since) {
		return next, false
	}
	w.woken.Put(claim, c.Tenant, since, c.Value, due{})
	return w.next(c.Tenant)
}

// next returns the oldest woken claim of a tenant, to be queued. ok is false if that claim is not set aside.
func (w *waiting) next(tenant string) (oldest mcreconcile.Request, ok bool) {
	c := w.woken.Of(tenant, due{}).Next()
	if c == nil || c.Value != parked {
		return oldest, false
	}
	w.move(c, queued)
	return c.Key, true
}

// end notes that the pass of a claim has asked a candidate, or has ended. If the pass has ended behind an older claim,
// and that claim is still there, the claim of the pass is set aside. If ok is true, next is a claim that was set aside
// and is behind no claim now. The caller queues it.
func (w *waiting) end(claim mcreconcile.Request, behind bool) (isParked bool, next mcreconcile.Request, ok bool) {
	w.lock()
	defer w.mu.Unlock()
	c := w.woken.Get(claim)
	switch {
	case c == nil, c.Value != looked: // a claim that was woken again meanwhile is queued
		return false, next, false
	case !behind:
		w.woken.Drop(claim)
		next, ok = w.next(c.Tenant)
		return false, next, ok
	case w.woken.Of(c.Tenant, due{}).Next() == c:
		w.move(c, queued)
		return false, next, false
	default:
		w.move(c, parked)
		return true, next, false
	}
}

// wokenBefore reports whether an older claim of a tenant was woken, has not asked a candidate since, and may ask a pool
// of these topics.
func (w *waiting) wokenBefore(tenant ledger.ClusterName, since time.Time, topics []topic) bool {
	w.lock()
	defer w.mu.Unlock()
	for c := range w.woken.Of(string(tenant), due{}).All() {
		if !c.Since.Before(since) {
			return false
		}
		if w.mayAsk(c.Key, topics) {
			return true
		}
	}
	return false
}

// mayAsk reports whether a claim waits for any of the topics of a pool, or does not know yet which pools could serve
// it.
func (w *waiting) mayAsk(claim mcreconcile.Request, topics []topic) bool {
	c := w.claims.Get(claim)
	if c == nil { // it is gone, or has its block
		return false
	}
	knows := false
	for _, t := range c.Things {
		if slices.Contains(topics, t) {
			return true
		}
		knows = knows || t.ofPools()
	}
	return !knows
}

// waitsBefore reports whether an older claim of a tenant waits for any of the topics.
func (w *waiting) waitsBefore(tenant ledger.ClusterName, since time.Time, topics []topic) bool {
	w.lock()
	defer w.mu.Unlock()
	c := w.claims.Of(string(tenant), topics...).Next()
	return c != nil && c.Since.Before(since)
}
