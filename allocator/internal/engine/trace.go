package engine

import (
	"context"
	"errors"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of this package's spans.
const scope = "github.com/kcp-ipam/ipam/allocator"

// A request whose context carries a recording span gets spans below it, from the provider
// of that span:
//
//	allocate                one Bind
//	├─ wait for group       in the queue of the writer, until the writer plans it
//	├─ place                the plan
//	└─ etcd transaction     of the whole group
//
// A transaction is shared, and a trace is not. So the span of a transaction is in the trace of
// its first request that is traced, with a link to each of the others. Each of those has a
// span of its own for the transaction, with a link to the first.

// StartSpan starts a span below the span of the context; nil if that span does not record.
func StartSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name)
}

// EndSpan ends a span, with the error if there is one: a refusal is an answer, and only a fault is an error. It ignores
// a nil span.
func EndSpan(span trace.Span, err error) {
	switch {
	case span == nil:
		return
	case err == nil:
	case errors.Is(err, ledger.ErrBusy), errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrClosed):
		span.SetStatus(codes.Error, err.Error())
	default:
		span.SetAttributes(attribute.String("ipam.refusal", err.Error()))
	}
	span.End()
}

// traced is the trace of a call; nil if it has none.
type traced struct {
	ctx    context.Context // of the caller, for its span alone
	tracer trace.Tracer
	queued time.Time
}

// NewTraced returns the trace of a call; nil if its context has no span that records.
func NewTraced(ctx context.Context) *traced {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return nil
	}
	return &traced{ctx: ctx, tracer: span.TracerProvider().Tracer(scope), queued: time.Now()}
}

// Requeued notes that the call waits again, from now on.
func (t *traced) Requeued() {
	if t != nil {
		t.queued = time.Now()
	}
}

// Placing ends the span of the wait, and starts the span of the plan.
func (t *traced) Placing() trace.Span {
	if t == nil {
		return nil
	}
	_, wait := t.tracer.Start(t.ctx, "wait for group", trace.WithTimestamp(t.queued))
	wait.End()
	_, place := t.tracer.Start(t.ctx, "place")
	return place
}

// endSpans ends the spans of a transaction, and notes in them whether its comparisons held.
func endSpans(spans []trace.Span, succeeded bool, err error) {
	for _, span := range spans {
		span.SetAttributes(attribute.Bool("ipam.transaction.succeeded", succeeded))
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
