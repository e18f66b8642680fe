package consumer

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// few is how many claims of a workspace of any size may be deleted.
const few = 10

// window is how long a claim counts that was found abandoned, also when it is deleted
// by then.
const window = 10 * time.Minute

// brake counts the claims of each workspace that seem abandoned. Many at once mean
// that something else is wrong, such as a kcp that no longer shows their consumers.
// The zero value is ready; safe for concurrent use.
type brake struct {
	mu        sync.Mutex
	abandoned map[ledger.ClusterName]map[types.UID]time.Time
	pruned    time.Time // when what counts no more was forgotten last
}

// note counts a claim that was found abandoned now, or counts it no more.
func (b *brake) note(cluster ledger.ClusterName, claim types.UID, gone bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prune(now)
	if !gone {
		delete(b.abandoned[cluster], claim)
		return
	}
	if b.abandoned == nil {
		b.abandoned = map[ledger.ClusterName]map[types.UID]time.Time{}
	}
	if b.abandoned[cluster] == nil {
		b.abandoned[cluster] = map[types.UID]time.Time{}
	}
	b.abandoned[cluster][claim] = now
}

// prune forgets, once in a window, what counts no more, of workspaces that are gone too:
// no claim is noted to be gone itself. The caller holds mu.
func (b *brake) prune(now time.Time) {
	if now.Sub(b.pruned) <= window {
		return
	}
	b.pruned = now
	for cluster, claims := range b.abandoned {
		maps.DeleteFunc(claims, func(_ types.UID, at time.Time) bool { return now.Sub(at) > window })
		if len(claims) == 0 {
			delete(b.abandoned, cluster)
		}
	}
}

// free reports whether no more than so many claims of a workspace seem abandoned.
func (b *brake) free(cluster ledger.ClusterName, limit int, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for claim, at := range b.abandoned[cluster] {
		if now.Sub(at) > window {
			delete(b.abandoned[cluster], claim)
		}
	}
	return len(b.abandoned[cluster]) <= limit
}

// limit is how many of the checked claims of the workspace may seem abandoned.
func (p *pass) limit() int {
	return min(p.MaxDeletes, max(few, int(p.MaxShare*float64(p.looks.of(p.request.ClusterName)))))
}
