package claim

import (
	"container/heap"
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
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// The ledger keeps the order of the claims that wait for room in a pool. Claims that wait for a pool, or for a class,
// are in none of its lists. When the pool comes they are woken, the oldest first. This file keeps a younger claim from
// asking the pool in between: it is set aside, and queued once no older one is left. To look again and again would cost
// a thousand claims that wait for one pool a thousand looks each.

// errBehind: an older claim of the workspace comes first.
var errBehind = errors.New("an older claim is looked at first")

// behind reports whether older claims of the workspace are to ask a candidate first: they wait for it, or for the
// class of this claim, were woken and have not asked since. Or they are about to be woken, as the pool has just come.
func (d *decision) behind(c resolve.Candidate) bool {
	of := topicsOfPool(c.Owner.Cluster, c.Pool)
	return d.r.waiting.wokenBefore(d.tenant(), d.since, append(of, topic{kind: classTopic, name: d.class})) ||
		d.r.announced.lags(c.Pool, d.r.clock) && d.r.waiting.waitsBefore(d.tenant(), d.since, of)
}

// end notes that the pass of a claim has asked a candidate, or has ended. aside says that an older claim queues it.
func (r *Reconciler) end(claim mcreconcile.Request, behind bool) (aside bool) {
	aside, next, ok := r.waiting.end(claim, behind)
	if ok {
		r.Queue.Add(next)
	}
	return aside
}

// announced are the ready pools for which those who wait were woken, by UID. The zero value is none; safe
// for concurrent use.
type announced struct{ pools sync.Map }

// lags reports whether a pool got its CIDR a moment ago, and those who wait for it were not woken yet.
func (a *announced) lags(pool *ipamv1alpha1.IPPool, clock clock.PassiveClock) bool {
	ready := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if ready == nil || clock.Since(ready.LastTransitionTime.Time) >= coming {
		return false
	}
	_, has := a.pools.Load(pool.UID)
	return !has
}

// note notes how a pool is now that all who wait for it were woken.
func (a *announced) note(pool *ipamv1alpha1.IPPool) {
	if !resolve.Ready(pool) {
		a.drop(pool.UID)
		return
	}
	a.pools.Store(pool.UID, true)
}

func (a *announced) drop(pool types.UID) { a.pools.Delete(pool) }

// woken are the claims of one workspace that were woken, and have not asked a candidate since. Its owner guards it.
type woken struct {
	claims map[mcreconcile.Request]turn
	queue  byAge // the first is one of them; others may not be any more
}

// turn is how far a woken claim is, and when that was made: another claim of its name has another place.
type turn struct {
	stage stage
	since time.Time
}

// stage is how far a woken claim is.
type stage uint8

const (
	queued stage = iota // a pass is to begin
	looked              // one has begun
	parked              // one has ended, behind older claims; the last of those queues it
)

// add puts a claim in its place, and takes a former claim of its name from the place of that.
func (w *woken) add(claim inbox.Waiter, at stage) {
	known := w.has(claim)
	w.claims[claim.Request] = turn{at, claim.Since}
	if !known {
		heap.Push(&w.queue, claim)
		w.trim()
	}
}

func (w *woken) remove(claim mcreconcile.Request) {
	delete(w.claims, claim)
	w.trim()
}

// trim drops those that are left no more from the top.
func (w *woken) trim() {
	for len(w.queue) > 0 && !w.has(w.queue[0]) {
		heap.Pop(&w.queue)
	}
}

func (w *woken) has(claim inbox.Waiter) bool {
	at, ok := w.claims[claim.Request]
	return ok && at.since.Equal(claim.Since)
}

// move notes how far a claim is.
func (w *woken) move(claim mcreconcile.Request, to stage) {
	at := w.claims[claim]
	at.stage = to
	w.claims[claim] = at
}

// oldest is the first of those that are left. There must be one.
func (w *woken) oldest() mcreconcile.Request { return w.queue[0].Request }

// next returns the oldest, if that is set aside, which is to be queued.
func (w *woken) next() (oldest mcreconcile.Request, ok bool) {
	oldest = w.oldest()
	if ok = w.claims[oldest].stage == parked; ok {
		w.move(oldest, queued)
	}
	return oldest, ok
}

// byAge is a heap of claims, the oldest on top.
type byAge []inbox.Waiter

func (b byAge) Len() int           { return len(b) }
func (b byAge) Less(i, j int) bool { return b[i].Since.Before(b[j].Since) }
func (b byAge) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byAge) Push(claim any)    { *b = append(*b, claim.(inbox.Waiter)) }

func (b *byAge) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

// wake lists the claims that wait for any of the topics, oldest first. Until each of them has asked a candidate, or a
// pass of it has ended otherwise, younger ones of its workspace that ask the same pools are behind it.
func (w *waiting) wake(topics ...topic) []mcreconcile.Request {
	waiters := w.since(topics)
	w.mu.Lock()
	for _, claim := range waiters {
		of := w.woken[w.whose(claim.Request)]
		if of == nil {
			if w.woken == nil {
				w.woken = map[ledger.ClusterName]*woken{}
			}
			of = &woken{claims: map[mcreconcile.Request]turn{}}
			w.woken[w.whose(claim.Request)] = of
		}
		of.add(claim, queued)
	}
	w.mu.Unlock()
	return inbox.OldestFirst(waiters)
}

// begin notes that a pass begins for a claim.
func (w *waiting) begin(claim mcreconcile.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.woken[w.whose(claim)]; of != nil {
		if _, ok := of.claims[claim]; ok {
			of.move(claim, looked)
		}
	}
}

// made notes when the claim of a pass was made. A former claim of its name may have been woken, and was perhaps older.
// next is to be queued, if ok: a claim that was set aside behind that one.
func (w *waiting) made(claim inbox.Waiter) (next mcreconcile.Request, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.woken[w.whose(claim.Request)]
	if of == nil {
		return next, false
	}
	at, known := of.claims[claim.Request]
	if !known || of.has(claim) {
		return next, false
	}
	of.add(claim, at.stage)
	return of.next()
}

// end notes that the pass of a claim has asked a candidate or has ended. One that ended behind older claims is
// set aside, unless none is older any more. next is to be queued, if ok: one that was set aside and is behind none now.
func (w *waiting) end(claim mcreconcile.Request, behind bool) (isParked bool, next mcreconcile.Request, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.woken[w.whose(claim)]
	if of == nil {
		return false, next, false
	}
	if at, known := of.claims[claim]; !known || at.stage != looked {
		return false, next, false // woken again meanwhile, it is queued
	}
	if behind {
		isParked = of.oldest() != claim
		of.move(claim, queued)
		if isParked {
			of.move(claim, parked)
		}
		return isParked, next, false
	}
	if of.remove(claim); len(of.claims) == 0 {
		delete(w.woken, w.whose(claim))
		return false, next, false
	}
	next, ok = of.next()
	return false, next, ok
}

// wokenBefore reports whether an older claim of a workspace was woken, has not asked a candidate since, and may ask a
// pool of these topics.
func (w *waiting) wokenBefore(tenant ledger.ClusterName, since time.Time, topics []topic) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.woken[tenant]
	if of == nil {
		return false
	}
	return slices.ContainsFunc(of.queue, func(claim inbox.Waiter) bool {
		return of.has(claim) && claim.Since.Before(since) && w.mayAsk(claim.Request, topics)
	})
}

// mayAsk reports whether a claim waits for any of the topics of a pool, or does not know yet which pools could serve
// it.
func (w *waiting) mayAsk(claim mcreconcile.Request, topics []topic) bool {
	waits, left := w.claims[claim.ClusterName][claim]
	knows := !left // it is gone, or has its block
	for _, t := range waits.topics {
		if slices.Contains(topics, t) {
			return true
		}
		knows = knows || t.ofPools()
	}
	return !knows
}

// waitsBefore reports whether an older claim of a workspace waits for any of the topics.
func (w *waiting) waitsBefore(tenant ledger.ClusterName, since time.Time, topics []topic) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range topics {
		for claim, made := range w.topics[t] {
			if w.whose(claim) == tenant && made.Before(since) {
				return true
			}
		}
	}
	return false
}
