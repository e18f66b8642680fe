package pool

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// reporter tells the owner of a pool what became of it: by conditions in its status, which the caller writes, and by
// events. It does not know the ledger.
type reporter struct {
	pool    *ipamv1alpha1.IPPool
	cluster cluster.Cluster // that the events go to
}

// refuse records why the pool has no CIDR, with an event when that is news.
func (r reporter) refuse(ctx context.Context, refusal *outcome.Refusal) {
	if outcome.Changed(r.pool.Status.Conditions, refusal) {
		r.warn(refusal)
		log.FromContext(ctx).Info("pool refused", "reason", refusal.Reason, "message", refusal.Message)
	}
	refused(r.pool, refusal)
}

// fail records a fault that is being retried, with an event when it is the first, and returns it for the log. It does
// not record a shutdown.
func (r reporter) fail(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	refusal, err := outcome.Failed(err)
	if !outcome.Failing(r.pool.Status.Conditions) {
		r.warn(refusal)
	}
	refused(r.pool, refusal)
	return err
}

// freeze records that the pool gives nothing out for now, with an event when that is news, and returns the fault for
// the log. The published figures stay, and so does the published name of the ledger that they are of.
func (r reporter) freeze(ctx context.Context, err error) error {
	refusal, err := outcome.Failed(err)
	if ready := meta.FindStatusCondition(r.pool.Status.Conditions, ipamv1alpha1.ConditionReady); ready == nil ||
		ready.Message != refusal.Message {
		r.warn(refusal)
		log.FromContext(ctx).Info("pool frozen", "prefix", r.pool.Status.AllocatedCIDR)
	}
	refused(r.pool, refusal)
	return err
}

// excuse records why a pool did not enter the ledger, and returns a fault for the log.
func (r reporter) excuse(ctx context.Context, err error) error {
	refusal, refused := errors.AsType[*outcome.Refusal](err)
	switch {
	case errors.Is(err, errLost):
		return r.freeze(ctx, err)
	case errors.Is(err, errStale):
		return err
	case refused:
		r.refuse(ctx, refusal)
		return nil
	}
	return r.fail(ctx, err)
}

// refused sets the status of a pool that was refused, or that has a fault. A pool that has its CIDR keeps it, and only
// its conditions change.
func refused(pool *ipamv1alpha1.IPPool, refusal *outcome.Refusal) {
	status := &pool.Status
	if status.AllocatedCIDR != "" {
		outcome.Retry(&status.Conditions, pool.Generation, refusal)
		return
	}
	status.Classes = ipamv1alpha1.ClassesColumn(pool.Spec.ClassNames)
	status.Phase = ipamv1alpha1.PoolPending
	if outcome.Stalled(refusal.Reason) || refusal.Reason == ipamv1alpha1.ReasonError {
		status.Phase = ipamv1alpha1.PoolError
	}
	status.ObservedGeneration = pool.Generation
	outcome.Refuse(&status.Conditions, pool.Generation, refusal)
}

// progress emits the event of a change that is in force now, or of a failure that is over, before the status shows it.
// If the change needs another change, the event is a warning.
func (r reporter) progress(entered ledger.Pool, warning string) {
	status := &r.pool.Status
	switch {
	case outcome.Failing(status.Conditions):
		r.tell(corev1.EventTypeNormal, ipamv1alpha1.ReasonReconciled, "holds "+entered.CIDR.String())
	case warning != "" && status.ObservedGeneration != r.pool.Generation:
		r.tell(corev1.EventTypeWarning, ipamv1alpha1.ReasonPoolUpdated, warning)
	case status.AllocatedCIDR != "" && status.ObservedGeneration != r.pool.Generation:
		r.tell(corev1.EventTypeNormal, ipamv1alpha1.ReasonPoolUpdated, "the change of the spec is in force")
	}
}

// set sets a condition of the pool.
func (r reporter) set(condition string, status metav1.ConditionStatus, reason ipamv1alpha1.Reason, said string) {
	meta.SetStatusCondition(&r.pool.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: string(reason), Message: said, ObservedGeneration: r.pool.Generation,
	})
}

// declare sets a condition that exists only while there is something to say. It emits an event when the condition
// comes.
func (r reporter) declare(condition string, reason ipamv1alpha1.Reason, said string) {
	conditions := &r.pool.Status.Conditions
	if said == "" {
		meta.RemoveStatusCondition(conditions, condition)
		return
	}
	if !meta.IsStatusConditionTrue(*conditions, condition) {
		r.tell(corev1.EventTypeWarning, reason, said)
	}
	outcome.Report(conditions, r.pool.Generation, condition, &outcome.Refusal{Reason: reason, Message: said})
}

// warn emits the event of a refusal.
func (r reporter) warn(refusal *outcome.Refusal) {
	r.tell(corev1.EventTypeWarning, refusal.Reason, refusal.Message)
}

// tell emits an event on the pool.
func (r reporter) tell(kind string, reason ipamv1alpha1.Reason, message string) {
	r.cluster.GetEventRecorder(component).Eventf(r.pool, nil, kind, string(reason), "Allocate", "%s", message)
}
