package consumer

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// look is what the last checks of a claim found.
type look struct {
	claim ledger.ClaimID
	rule  ipamv1alpha1.Reason
	times int // in a row
	at    time.Time
}

// looks are the results for the claims of each workspace. The zero value is ready; safe for
// concurrent use.
type looks struct {
	mu          sync.Mutex
	byWorkspace map[multicluster.ClusterName]map[types.NamespacedName]look
}

// note records a check of a claim, and returns how many checks in a row had this result. A
// check within half the interval after the last one, which a hint may cause, is not counted.
func (l *looks) note(req mcreconcile.Request, now look, interval time.Duration) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	claims := l.byWorkspace[req.ClusterName]
	if claims == nil {
		if l.byWorkspace == nil {
			l.byWorkspace = map[multicluster.ClusterName]map[types.NamespacedName]look{}
		}
		claims = map[types.NamespacedName]look{}
		l.byWorkspace[req.ClusterName] = claims
	}
	last := claims[req.NamespacedName]
	if last.claim != now.claim || last.rule != now.rule {
		last = look{claim: now.claim, rule: now.rule}
	}
	if now.at.Sub(last.at) >= interval/2 {
		last.times, last.at = min(last.times+1, looksToDelete), now.at
	}
	claims[req.NamespacedName] = last
	return last.times
}

// forget removes a claim.
func (l *looks) forget(req mcreconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	claims := l.byWorkspace[req.ClusterName]
	delete(claims, req.NamespacedName)
	if len(claims) == 0 {
		delete(l.byWorkspace, req.ClusterName)
	}
}

// of counts the claims of a workspace that were checked.
func (l *looks) of(workspace multicluster.ClusterName) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byWorkspace[workspace])
}
