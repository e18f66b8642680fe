package claim

import (
	"time"

	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// waiter implements waits for a stored claim, which waits for topics here, and for room in the ledger.
type waiter struct {
	request mcreconcile.Request
	claim   *ipamv1alpha1.IPClaim
	holder  ledger.ClaimID
	waiting *waiting
	ledger  views.Waits
	queue   inbox.Queue
	started func() time.Time
	most    int // at how many pools the claims of its workspace may wait; 0: at any number
}

// waiter returns the waiter of a stored claim.
func (r *Reconciler) waiter(req mcreconcile.Request, claim *ipamv1alpha1.IPClaim) waiter {
	return waiter{
		request: req, claim: claim, holder: promise.IDOf(r.Directory.Ledger(req.ClusterName), claim), waiting: &r.waiting,
		ledger: r.Ledger.Waits, queue: r.Queue, started: r.started, most: r.MaxWaits,
	}
}

// enter implements waits.
func (w waiter) enter(topics []topic) bool {
	w.waiting.enter(w.request, w.claim, topics)
	return true
}

// nowhere implements waits.
func (w waiter) nowhere() {
	w.waiting.occupy(w.request, 0, 0)
	w.withdraw()
}

// at implements waits.
func (w waiter) at(requests []ledger.Request) bool {
	if over := w.waiting.occupy(w.request, len(requests), w.most); over > 0 {
		w.withdraw()
		w.queue.AddAfter(w.request, untilTurn(over))
		return false
	}
	pools := make([]ledger.PoolID, len(requests))
	for i, r := range requests {
		pools[i] = r.Pool
		w.ledger.Add(r)
	}
	w.ledger.KeepOnly(w.holder, pools...)
	return true
}

// unchecked implements waits. Soon after its first call for any claim it returns errUnchecked, because the pool
// controller is about to compare the pool. The claim then waits in the ledger.
func (w waiter) unchecked(r ledger.Request) error {
	if time.Since(w.started()) >= checking {
		return nil
	}
	w.ledger.Add(r)
	return errUnchecked
}

// anyway implements waits.
func (w waiter) anyway() { w.queue.AddAfter(w.request, askAgain) }

// served ends the wait for topics of a claim that has its block.
func (w waiter) served() { w.waiting.leave(w.request) }

// leave ends all waits of the claim.
func (w waiter) leave() {
	w.served()
	w.withdraw()
}

// withdraw ends the claim's waits for room.
func (w waiter) withdraw() { w.ledger.Withdraw(w.holder) }
