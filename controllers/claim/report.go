package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// report says how a pass over a claim has ended: in the claim's status, by events, and in metrics, log and span.
type report struct {
	request mcreconcile.Request
	claim   *ipamv1alpha1.IPClaim
	cluster cluster.Cluster
	memory  *memory
	clock   clock.PassiveClock
	bound   bool                // the block was published
	reason  ipamv1alpha1.Reason // why it was not
}

// unmet records a fault that keeps the claim from its block, unless the fault is usually over in a moment.
func (r *report) unmet(ctx context.Context, err error) error {
	if errors.Is(err, errBehind) || (errors.Is(err, errFormer) || errors.Is(err, errUnsure)) && r.age() < settling {
		return err
	}
	return r.fail(ctx, err)
}

// refuse records why the claim waits, with an event when that is news.
func (r *report) refuse(ctx context.Context, refusal *outcome.Refusal) {
	r.reason = refusal.Reason
	if outcome.Changed(r.claim.Status.Conditions, refusal) || r.untold() {
		refusals.WithLabelValues(string(refusal.Reason)).Inc()
		r.warn(refusal)
		log.FromContext(ctx).Info("refused", "reason", refusal.Reason, "message", refusal.Message)
	}
	refused(r.claim, refusal)
}

// untold reports whether an event still has to tell the claim's first refusal. The status may show that refusal
// already, if the answer to CREATE has set it.
func (r *report) untold() bool { return r.age() < telling && !unmet.knows(r.request) }

// fail records a fault that is being retried, with an event for the first one, and returns it for the log. It does not
// record a shutdown, a conflict, or that a pool was not compared yet. If the claim shows its block, only a lasting
// fault reaches the status: see unfinished.
func (r *report) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, errUnchecked) || apierrors.IsConflict(err) {
		return err
	}
	refusal, err := outcome.Failed(err)
	r.reason = refusal.Reason
	again := r.memory.recordFailure(r.claim.UID)
	if r.claim.Status.AllocatedCIDR != "" && (!again || r.age() < unfinished) {
		return err
	}
	if !outcome.Failing(r.claim.Status.Conditions) {
		refusals.WithLabelValues(string(refusal.Reason)).Inc()
		r.warn(refusal)
	}
	refused(r.claim, refusal)
	return err
}

// age returns how long ago the claim was created.
func (r *report) age() time.Duration { return r.clock.Since(r.claim.CreationTimestamp.Time) }

// component is the reporter of the controller's events.
const component = "ipam-controller"

// warn emits the event of a refusal. A success has an event only after a failure: otherwise the status is enough.
func (r *report) warn(refusal *outcome.Refusal) {
	r.tell(corev1.EventTypeWarning, refusal.Reason, refusal.Message)
}

// tell emits an event on the claim.
func (r *report) tell(kind string, reason ipamv1alpha1.Reason, message string) {
	r.cluster.GetEventRecorder(component).Eventf(r.claim, nil, kind, string(reason), "Allocate", "%s", message)
}

// correct counts a claim whose block is not the one that it shows, and emits an event about that.
func (r *report) correct(block ledger.Block) {
	if shown := r.claim.Status.AllocatedCIDR; shown != "" && shown != block.Prefix.String() {
		corrections.Inc()
		r.tell(corev1.EventTypeWarning, ipamv1alpha1.ReasonError,
			fmt.Sprintf("%s was shown and never given to this claim, which has %s", shown, block.Prefix))
	}
}

// measure shows in the metrics how the pass has ended. It does not time a pass that found nothing to do, or whose error
// is not recorded.
func (r *report) measure(begun time.Time, err error) {
	switch {
	case r.reason != "":
		since := r.claim.CreationTimestamp.Time
		if r.claim.Status.AllocatedCIDR != "" {
			since = begun // the claim had its block before
		}
		unmet.note(r.request, r.reason, since)
	case err == nil:
		unmet.remove(r.request)
	}
	if result := r.result(err); result != "" {
		durations.WithLabelValues(result).Observe(time.Since(begun).Seconds())
	}
}

// result returns the value of the label result for the pass; empty if the pass is not timed.
func (r *report) result(err error) string {
	switch {
	case r.reason == ipamv1alpha1.ReasonError:
		return resultFailed
	case err != nil:
		return ""
	case r.reason != "":
		return resultRefused
	case r.bound:
		return resultBound
	}
	return ""
}

// tellSpan says in the span how the pass has ended. A pass that found nothing to do has
// no result.
func (r *report) tellSpan(ctx context.Context, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("ipam.result", r.result(err)),
		attribute.String("ipam.reason", string(r.reason)),
		attribute.String("ipam.prefix", r.claim.Status.AllocatedCIDR),
	)
}
