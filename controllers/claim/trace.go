package claim

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
)

// traced returns the reconciler with a span, "reconcile", around each reconcile. Log lines of a reconcile name its
// trace. Without a tracer it returns the reconciler alone.
func (r *Reconciler) traced() reconcile.TypedReconciler[mcreconcile.Request] {
	if r.Tracer == nil {
		return r
	}
	return reconcile.TypedFunc[mcreconcile.Request](func(
		ctx context.Context, req mcreconcile.Request,
	) (reconcile.Result, error) {
		ctx, span := r.Tracer.Start(ctx, "reconcile")
		defer span.End()
		if !span.IsRecording() {
			return r.Reconcile(ctx, req)
		}
		span.SetAttributes(
			attribute.String("ipam.cluster", string(r.Directory.Ledger(req.ClusterName))),
			attribute.String("ipam.claim", req.NamespacedName.String()),
			// controller-runtime logs this ID, too
			attribute.String("ipam.reconcile_id", string(controller.ReconcileIDFromContext(ctx))),
		)
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("trace_id", span.SpanContext().TraceID().String()))
		result, err := r.Reconcile(ctx, req)
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		return result, err
	})
}

// span starts a span for the answer to a CREATE; end takes the answer. Without a tracer it does
// nothing.
func (r *Reconciler) span(ctx context.Context, req door.Request) (_ context.Context, end func(door.Answer, error)) {
	if r.Tracer == nil {
		return ctx, func(door.Answer, error) {}
	}
	ctx, span := r.Tracer.Start(ctx, "answer", trace.WithAttributes(
		attribute.String("ipam.cluster", string(req.Cluster)),
		attribute.String("ipam.claim", req.Claim.Namespace+"/"+req.Claim.Name),
	))
	return ctx, func(answer door.Answer, err error) {
		allocated := meta.FindStatusCondition(answer.Status.Conditions, ipamv1alpha1.ConditionAllocated)
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		} else if allocated != nil {
			span.SetAttributes(
				attribute.String("ipam.reason", allocated.Reason),
				attribute.String("ipam.prefix", answer.Status.AllocatedCIDR),
			)
		}
		span.End()
	}
}

// step starts a span for a part of a traced pass; end takes the error of the part. It does nothing if the pass is not
// traced.
func step(ctx context.Context, name string) (_ context.Context, end func(error)) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, endless
	}
	ctx, span := parent.TracerProvider().Tracer("github.com/kcp-ipam/ipam/controllers/claim").Start(ctx, name)
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

func endless(error) {}
