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

// Doubts has the claims that seem to be bound, and must be compared with the ledger: adoption has found that other
// claims have their addresses. It is made before the controller, because adoption adds to it, and the controller needs
// adoption. Safe for concurrent use; a nil Doubts has no claims.
type Doubts struct {
	queue     inbox.Queue
	directory *directory.Directory
	claims    sync.Map // by the ID of the holder, until the ledger has answered, or the claim was deleted
}

// NewDoubts returns an empty Doubts, which requeues claims in this queue.
func NewDoubts(queue inbox.Queue, d *directory.Directory) *Doubts {
	return &Doubts{queue: queue, directory: d}
}

// Add requeues a claim, to compare it with the ledger. It does not block.
func (d *Doubts) Add(h ledger.Holder) {
	if h.Namespace == "" {
		return // the holder is a pool, which the pool controller compares
	}
	d.claims.Store(h.Claim, true)
	d.queue.Add(inbox.Request(d.directory.Engaged(h.Cluster), client.ObjectKey{Namespace: h.Namespace, Name: h.Name}))
}

// has reports whether a claim must be compared with the ledger.
func (d *Doubts) has(claim ledger.ClaimID) bool {
	if d == nil {
		return false
	}
	_, doubted := d.claims.Load(claim)
	return doubted
}

// drop removes a claim that was compared, or deleted.
func (d *Doubts) drop(claim ledger.ClaimID) {
	if d != nil {
		d.claims.Delete(claim)
	}
}

// doubts reports whether the pass must ask the ledger about a claim that seems to be bound.
func (p *pass) doubts() bool {
	ready := meta.FindStatusCondition(p.claim.Status.Conditions, ipamv1alpha1.ConditionReady)
	return p.r.Doubts.has(p.holder().Claim) || ready != nil && ready.Reason == string(ipamv1alpha1.ReasonAddressInUse)
}
