package claim

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// Doubts compares claims with the ledger that seem to be bound: their blocks are in dispute, or no longer. It exists
// before the controller, whose queue it adds to: adoption, which the controller asks, doubts claims itself. Safe for
// concurrent use; nil doubts nothing.
type Doubts struct {
	queue     inbox.Queue
	directory *directory.Directory
	claims    sync.Map // by UID, until the next pass, or the deletion of the claim
}

// NewDoubts returns doubts that requeue claims.
func NewDoubts(queue inbox.Queue, d *directory.Directory) *Doubts {
	return &Doubts{queue: queue, directory: d}
}

// Add requeues a claim, to compare it with the ledger. It does not block.
func (d *Doubts) Add(h ledger.Holder) {
	if h.Namespace == "" {
		return // a pool, which is never in dispute itself
	}
	d.claims.Store(types.UID(h.Claim), true)
	d.queue.Add(inbox.Request(d.directory.Engaged(h.Cluster), client.ObjectKey{Namespace: h.Namespace, Name: h.Name}))
}

// take reports whether a claim is doubted, and ends that.
func (d *Doubts) take(claim types.UID) bool {
	if d == nil {
		return false
	}
	_, doubted := d.claims.LoadAndDelete(claim)
	return doubted
}

// doubts reports whether the ledger has to be asked about a claim that seems to be bound.
func (p *pass) doubts() bool {
	return p.Doubts.take(p.claim.UID) || meta.IsStatusConditionTrue(p.claim.Status.Conditions, ipamv1alpha1.ConditionDisputed)
}

// dispute says in the conditions of a claim or record whether others have been given addresses of its
// block, too. It does not name them: they may be other tenants.
func dispute(conditions *[]metav1.Condition, generation int64, block ledger.Block) {
	if block.State != ledger.Disputed {
		meta.RemoveStatusCondition(conditions, ipamv1alpha1.ConditionDisputed)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               ipamv1alpha1.ConditionDisputed,
		Status:             metav1.ConditionTrue,
		Reason:             string(ipamv1alpha1.ReasonDisputed),
		Message:            disputeOver(block),
		ObservedGeneration: generation,
	})
}

func disputeOver(block ledger.Block) string {
	return "another record has addresses of " + block.Prefix.String() + ", too; find out who uses them, and delete the other claim"
}
