package pool

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// reportDiffering sets the condition ClassesDiffer of a pool that serves none of its classes, as they cannot share it, with an event
// when it comes.
func (p *pass) reportDiffering(ctx context.Context) error {
	view := p.catalog.View(ctx)
	said := resolve.ClassesDiffer(view, p.pool)
	if err := view.Err(); err != nil {
		return err
	}
	var differ *outcome.Refusal
	if said != "" {
		differ = &outcome.Refusal{Reason: ipamv1alpha1.ReasonUniqueWithinDiffers, Message: said}
		if !meta.IsStatusConditionTrue(p.pool.Status.Conditions, ipamv1alpha1.ConditionClassesDiffer) {
			p.tell(corev1.EventTypeWarning, differ.Reason, said)
		}
	}
	outcome.Report(&p.pool.Status.Conditions, p.pool.Generation, ipamv1alpha1.ConditionClassesDiffer, differ)
	return nil
}
