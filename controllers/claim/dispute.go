package claim

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// Doubt has a claim compared with the ledger although it seems to be bound: its block
// is in dispute, or no longer. It does not block.
func (r *Reconciler) Doubt(h ledger.Holder) {
	if h.Namespace == "" {
		return // a pool, which is never in dispute itself
	}
	r.memory.doubt(types.UID(h.Claim))
	r.queue.Add(inbox.Request(r.directory.Engaged(h.Cluster), client.ObjectKey{Namespace: h.Namespace, Name: h.Name}))
}

// doubts reports whether the ledger has to be asked about a claim that seems to be bound.
func (p *pass) doubts() bool {
	return p.memory.doubts(p.claim.UID) || meta.IsStatusConditionTrue(p.claim.Status.Conditions, ipamv1alpha1.ConditionDisputed)
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
