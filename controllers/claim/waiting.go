package claim

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/internal/wait"
)

// waiting keeps the claims that wait for topics, and the claims that were woken. A claim enters before its pass reads
// the catalog, so that no change is missed between the read and the wait. The zero value is ready; safe for concurrent
// use.
type waiting struct {
	known  *directory.Directory // nil: every workspace is a tenant
	mu     sync.Mutex
	claims *wait.List[mcreconcile.Request, topic, place]
	woken  *wait.List[mcreconcile.Request, due, stage] // claims that were woken, and have not asked a candidate since
	places map[string]places                           // by tenant; a tenant without places is left out
}

// waitingClaim is a claim that waits.
type waitingClaim = wait.Waiter[mcreconcile.Request, topic, place]

// place says at how many pools one claim waits for room.
type place struct {
	uid  types.UID
	at   int  // the number of pools
	over bool // it waits at no pool, because its workspace has too many places
}

// lock locks mu, and makes the lists if there are none.
func (w *waiting) lock() {
	w.mu.Lock()
	if w.claims == nil {
		w.claims = wait.New[mcreconcile.Request, topic, place](inbox.Compare)
		w.woken = wait.New[mcreconcile.Request, due, stage](inbox.Compare)
		w.places = map[string]places{}
	}
}

// whose returns the tenant of a claim.
func (w *waiting) whose(claim mcreconcile.Request) string {
	if w.known == nil {
		return string(claim.ClusterName)
	}
	return string(w.known.Ledger(claim.ClusterName).Tenant(claim.Namespace))
}

// enter lets a claim wait for these topics, and no others. It ends the wait of a former claim of the name.
func (w *waiting) enter(claim mcreconcile.Request, as *ipamv1alpha1.IPClaim, topics []topic) {
	w.lock()
	defer w.mu.Unlock()
	at := place{uid: as.UID}
	switch former := w.claims.Get(claim); {
	case former == nil:
	case former.Value.uid != as.UID:
		w.drop(claim)
	case slices.Equal(former.Things, topics):
		return
	default:
		at = former.Value
	}
	w.claims.Put(claim, w.whose(claim), as.CreationTimestamp.Time, at, topics...)
}

// leave ends the wait of a claim, and returns the UID under which the claim waited. ok is false if it did not wait.
func (w *waiting) leave(claim mcreconcile.Request) (uid types.UID, ok bool) {
	w.lock()
	defer w.mu.Unlock()
	return w.drop(claim)
}

// replaced ends the wait of a former claim of this name, and returns its UID. by is the UID of the present claim. ok is
// false if no former claim waited.
func (w *waiting) replaced(claim mcreconcile.Request, by types.UID) (uid types.UID, ok bool) {
	w.lock()
	defer w.mu.Unlock()
	if former := w.claims.Get(claim); former == nil || former.Value.uid == by {
		return "", false
	}
	return w.drop(claim)
}

func (w *waiting) drop(claim mcreconcile.Request) (uid types.UID, ok bool) {
	left := w.claims.Get(claim)
	if left == nil {
		return "", false
	}
	w.count(left, -1)
	w.claims.Drop(claim)
	return left.Value.uid, true
}

// of lists the waiting claims of a workspace. Each of them waits for the nameTopic of the workspace.
func (w *waiting) of(cluster ledger.ClusterName) []mcreconcile.Request {
	return w.on(topic{kind: nameTopic, cluster: cluster})
}

// on lists the claims that wait for any of the topics, oldest first.
func (w *waiting) on(topics ...topic) (found []mcreconcile.Request) {
	w.lock()
	defer w.mu.Unlock()
	for c := range w.claims.OldestFirst(topics...).All() {
		found = append(found, c.Key)
	}
	return found
}

// A claim waits at each pool that could serve it, and each such place takes memory of the leader. So a workspace has a
// bounded number of places. A claim that gets no place is requeued from time to time: all such claims of a workspace
// together a few times a second.

const (
	// askAgain is the delay of the requeue of a claim that waits at fewer pools than could serve it. If many claims of the
	// workspace have no place, the delay is longer: see untilTurn.
	askAgain = time.Minute
	// apart is the least mean time between two passes over those claims of one workspace that have no place.
	apart = time.Second / 4
)

// places are the places of one workspace.
type places struct {
	taken int
	over  int // claims that got no place
}

// occupy gives a waiting claim as many places as there are pools at which it waits. at is their number. most limits the
// places of its workspace; 0: there is no limit. If the workspace would exceed the limit, the claim gets no place, and
// occupy returns how many claims of the workspace have none. Otherwise it returns 0.
func (w *waiting) occupy(claim mcreconcile.Request, at, most int) (over int) {
	w.lock()
	defer w.mu.Unlock()
	c := w.claims.Get(claim)
	if c == nil {
		return 0
	}
	w.count(c, -1)
	now := place{uid: c.Value.uid, at: at}
	if most > 0 && w.places[c.Tenant].taken+at > most {
		now.at, now.over = 0, true
	}
	if now != c.Value {
		w.claims.Put(claim, c.Tenant, c.Since, now, c.Things...)
		c = w.claims.Get(claim)
	}
	w.count(c, 1)
	if !now.over {
		return 0
	}
	return w.places[c.Tenant].over
}

// count adds the places of a claim to those of its workspace if times is 1, and subtracts them if times is -1. The
// caller holds mu.
func (w *waiting) count(c *waitingClaim, times int) {
	of := w.places[c.Tenant]
	of.taken += times * c.Value.at
	if c.Value.over {
		of.over += times
	}
	if w.places[c.Tenant] = of; of == (places{}) {
		delete(w.places, c.Tenant)
	}
}

// untilTurn returns the delay of the requeue of a claim without a place. over is how many claims of its workspace have
// none.
func untilTurn(over int) time.Duration { return max(askAgain, time.Duration(over)*apart) }

// crowded returns the message of a claim that waits at no pool because its workspace has too many places. why is the
// message that it would have otherwise.
func crowded(most int, why string) string {
	return fmt.Sprintf(
		"the claims of this workspace wait at %d pools, each pool counted for each claim, which is as many as they may: "+
			"this one waits at none, and looks again from time to time; delete claims, or name a pool in each; %s", most, why)
}
