package release

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// Hints are the holders that may be gone, how each was last seen, and the workspaces whose bindings were seen to go.
// Workspaces take turns. Make Hints with NewHints, before the Controller that settles them: other parts add hints
// earlier. They are safe for concurrent use.
type Hints struct {
	queue workqueue.TypedRateLimitingInterface[ledger.Holder]
	clock clock.PassiveClock
	sights

	mu       sync.Mutex
	departed map[ledger.ClusterName]departure
	pruned   time.Time // when departed was last pruned
}

// NewHints makes the Hints of one Controller.
func NewHints(passive clock.PassiveClock) *Hints {
	return &Hints{
		queue: inbox.InTurns("release", 50*time.Millisecond, time.Minute, func(h ledger.Holder) ledger.ClusterName {
			return h.Cluster
		}),
		clock:    passive,
		sights:   sights{deleted: map[ledger.ClaimID]deletion{}},
		departed: map[ledger.ClusterName]departure{},
	}
}

// Suspect hints that the holder of a block may be gone.
func (i *Hints) Suspect(h ledger.Holder) { i.queue.Add(h) }

// deletion says how a claim or pool was last seen before it was deleted or missed. The zero value says that nothing is
// known.
type deletion struct {
	number   uint64    // of the hint
	at       time.Time // of the hint
	revision string
	bound    bool                       // it showed a block
	missed   bool                       // its deletion was not seen
	claim    *ipamv1alpha1.IPClaim      // nil for a pool
	record   *ipamv1alpha1.IPAllocation // nil if none was seen
}

// policy returns the reclaim policy that counts for a block: that of the claim as last seen, else the one in the
// ledger.
func (d deletion) policy(block ledger.Block) ipamv1alpha1.ReclaimPolicy {
	recorded := ipamv1alpha1.ReclaimPolicy(block.Policy)
	if d.claim == nil {
		return recorded
	}
	return cmp.Or(d.claim.Spec.ReclaimPolicy, recorded)
}

// outdated reports whether the server that lacks the claim is older than the claim: it was restored from a backup.
// server is the revision of the server's answer. Without both revisions outdated reports false.
func (d deletion) outdated(server string) bool {
	if d.revision == "" || server == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(server, d.revision)
	return err != nil || order < 0
}

// precedes reports whether the claim was deleted before its record was stored: the reconcile had a stale cache. Nobody
// could read such a record while the claim existed. If the record was changed later, nobody knows when it was stored,
// and precedes reports false. The event of a deletion has the revision of the deletion, and revisions count over all
// objects of a workspace.
func (d deletion) precedes(own *ipamv1alpha1.IPAllocation) bool {
	if d.claim == nil || d.missed || own.Spec.ClaimRef == nil || own.Generation > 1 {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(own.ResourceVersion, d.revision)
	return err == nil && order > 0
}

// Deleted hints that the deletion of a claim was seen. last and record are the claim and its record as last seen;
// record is nil if none was seen.
func (i *Hints) Deleted(h ledger.Holder, last *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) {
	seen := lastSeen(last)
	seen.record = record
	i.hint(h, seen)
}

// Missed hints that a claim may be gone, although nobody saw its deletion: a list left out the claim, a server does not
// know a claim that the cache shows, or a record is there whose claim the cache does not show. In the last case last is
// nil.
//
// In a kcp that was restored from a backup, all of these may be true of every claim that is newer than the backup. So
// the claim's block is freed only if the server has had the claim's record for some time, and has thus known the claim,
// or if the workspace's binding was seen to go. Otherwise the block is left to the sweep, which has a brake.
func (i *Hints) Missed(h ledger.Holder, last *ipamv1alpha1.IPClaim) {
	seen := deletion{bound: true}
	if last != nil {
		seen = lastSeen(last)
	}
	seen.missed = true
	i.hint(h, seen)
}

// PoolDeleted hints that the deletion of an IPPool was seen. The pool controller has removed the pool from the ledger
// before, unless a user has removed the finalizer.
func (i *Hints) PoolDeleted(h ledger.Holder, last *ipamv1alpha1.IPPool) {
	i.hint(h, deletion{revision: last.ResourceVersion, bound: true})
}

func lastSeen(claim *ipamv1alpha1.IPClaim) deletion {
	return deletion{revision: claim.ResourceVersion, bound: claim.Status.AllocatedCIDR != "", claim: claim}
}

// sights keeps how deleted and missed claims and pools were last seen. Safe for concurrent use.
type sights struct {
	mu      sync.Mutex
	deleted map[ledger.ClaimID]deletion
	hints   uint64 // how many there were
}

// hint keeps how the holder was last seen, and queues the holder.
func (i *Hints) hint(h ledger.Holder, last deletion) {
	last.at = i.clock.Now()
	i.keep(h.Claim, last)
	i.queue.Add(h)
}

// keep keeps how a claim or pool was last seen. A claim that is missed does not replace a deletion that was seen: a
// write may be answered with a 404 after the deletion was seen. But its record may be stored later still, so that the
// hint that the record brings says that there was a block.
func (s *sights) keep(claim ledger.ClaimID, last deletion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.deleted[claim]; ok && last.missed && (last.claim == nil || !before.missed) {
		before.bound = before.bound || last.bound
		last = before // which says more
	}
	s.hints++
	last.number = s.hints
	s.deleted[claim] = last
}

// seen returns how a claim or pool was last seen, if a hint has said so.
func (s *sights) seen(claim ledger.ClaimID) deletion {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deleted[claim]
}

// SawDeleted reports whether the deletion of a claim was seen, and the hint of it is not settled yet. It is false for a
// claim that a list left out.
func (s *sights) SawDeleted(claim ledger.ClaimID) bool {
	seen := s.seen(claim)
	return seen.claim != nil && !seen.missed
}

// forgetRecord forgets the record that came with a hint, so that the next attempt reads the record.
func (s *sights) forgetRecord(claim ledger.ClaimID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.deleted[claim]; ok {
		seen.record = nil
		s.deleted[claim] = seen
	}
}

// forget forgets how a claim was last seen, if the hint of this number was the last one to say so. A later hint is
// queued, and still needs what it has noted.
func (s *sights) forget(claim ledger.ClaimID, number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted[claim].number == number {
		delete(s.deleted, claim)
	}
}

// forgetDeparture is how long the departure of a workspace is kept after the last call of HasDeparted for the
// workspace. Each sweep calls HasDeparted for each block of a workspace, and settle calls it for each hint. So a
// workspace whose departure is forgotten has neither blocks nor hints.
const forgetDeparture = 24 * time.Hour

// departure says when the binding of a workspace was seen to go.
type departure struct {
	at    time.Time
	asked time.Time // the last call of HasDeparted
	back  bool      // another binding has come since
}

// Departed notes that a workspace's binding was seen to go. The caller hints at the workspace's blocks, one by one.
func (i *Hints) Departed(cluster ledger.ClusterName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.clock.Now()
	i.departed[cluster] = departure{at: now, asked: now}
	if i.clock.Since(i.pruned) < forgetDeparture {
		return
	}
	i.pruned = now
	maps.DeleteFunc(i.departed, func(_ ledger.ClusterName, d departure) bool {
		return i.clock.Since(d.asked) >= forgetDeparture
	})
}

// returned notes that a workspace is bound (again).
func (i *Hints) returned(cluster ledger.ClusterName) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if d, ok := i.departed[cluster]; ok {
		d.back = true
		i.departed[cluster] = d
	}
}

// HasDeparted reports whether a workspace's binding was seen to go, and no other binding has come since.
func (i *Hints) HasDeparted(cluster ledger.ClusterName) bool {
	_, departed := i.departure(cluster)
	return departed
}

// departure returns when a workspace's binding was seen to go. ok is false if none was, or if another binding has come
// since.
func (i *Hints) departure(cluster ledger.ClusterName) (at time.Time, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	d, ok := i.departed[cluster]
	if ok {
		d.asked = i.clock.Now()
		i.departed[cluster] = d
	}
	return d.at, ok && !d.back
}

// departedOnce reports whether a binding of a workspace was seen to go, also if another has come since.
func (i *Hints) departedOnce(cluster ledger.ClusterName) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, departed := i.departed[cluster]
	return departed
}
