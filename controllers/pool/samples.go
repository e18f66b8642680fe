package pool

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/forecast"
)

// settling is how old a pool is when its first sample is taken: most are filled while they are new.
const settling = time.Hour

// sample notes how many addresses are used, for forecasts. The samples are an annotation: there
// the plugin can read them, and they outlive the controller. A pool whose number does not change
// has no more of them, and costs no write.
func (p *pass) sample(ctx context.Context, capacity ledger.Capacity) {
	samples, err := forecast.Parse(p.pool.Annotations[ipamv1alpha1.AnnotationUsage])
	if err != nil {
		log.FromContext(ctx).Info("the samples of what was used begin anew", "annotation", ipamv1alpha1.AnnotationUsage, "why", err.Error())
	}
	p.samples = samples
	now := p.now()
	if young := settling - now.Sub(p.pool.CreationTimestamp.Time); young > 0 {
		p.due = young
		return
	}
	next, wait := samples.Record(now, capacity.Allocated)
	p.due = wait
	if wait > 0 || len(next) > 0 && next.String() == samples.String() {
		return
	}
	if p.pool.Annotations == nil {
		p.pool.Annotations = map[string]string{}
	}
	p.samples, p.pool.Annotations[ipamv1alpha1.AnnotationUsage] = next, next.String()
}
