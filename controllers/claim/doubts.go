package claim

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// Doubts compares claims with the ledger that seem to be bound: adoption has found that others have their addresses. It
// exists before the controller, whose queue it adds to: adoption, which the controller asks, doubts claims itself. Safe
// for concurrent use; nil doubts nothing.
type Doubts struct {
	queue     inbox.Queue
	directory *directory.Directory
	claims    sync.Map // by the ID of the holder, until the ledger has answered, or the claim was deleted
}

// NewDoubts returns doubts that requeue claims.
func NewDoubts(queue inbox.Queue, d *directory.Directory) *Doubts {
	return &Doubts{queue: queue, directory: d}
}

// Add requeues a claim, to compare it with the ledger. It does not block.
func (d *Doubts) Add(h ledger.Holder) {
	if h.Namespace == "" {
		return // it is a pool, whose own controller compares it
	}
	d.claims.Store(h.Claim, true)
	d.queue.Add(inbox.Request(d.directory.Engaged(h.Cluster), client.ObjectKey{Namespace: h.Namespace, Name: h.Name}))
}

// has reports whether a claim is doubted.
func (d *Doubts) has(claim ledger.ClaimID) bool {
	if d == nil {
		return false
	}
	_, doubted := d.claims.Load(claim)
	return doubted
}

// drop ends the doubt about a claim.
func (d *Doubts) drop(claim ledger.ClaimID) {
	if d != nil {
		d.claims.Delete(claim)
	}
}

// doubts reports whether the ledger has to be asked about a claim that seems to be bound.
func (p *pass) doubts() bool {
	ready := meta.FindStatusCondition(p.claim.Status.Conditions, ipamv1alpha1.ConditionReady)
	return p.r.Doubts.has(p.holder().Claim) || ready != nil && ready.Reason == string(ipamv1alpha1.ReasonAddressInUse)
}
