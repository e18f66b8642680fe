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
//	├─ wait for group       in the queue of the space, until the worker takes it
//	├─ place                on the index
//	└─ etcd transaction     of the whole group
//
// A transaction is shared, and a trace is not. So the span of a transaction is in the trace of
// its first request that is traced, with a link to each of the others. Each of those has a
// span of its own for the transaction, with a link to the first.

// StartSpan starts a span below that of the context; nil if that one does not record.
func StartSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name)
}

// EndSpan ends a span, with the error if there is one: a refusal is an answer, and
// only a fault is an error. A nil span has no end.
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

// NewTraced notes the trace of a call; nil if its context is in none that records.
func NewTraced(ctx context.Context) *traced {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return nil
	}
	return &traced{ctx: ctx, tracer: span.TracerProvider().Tracer(scope), queued: time.Now()}
}

// Requeued notes that the call waits again.
func (t *traced) Requeued() {
	if t != nil {
		t.queued = time.Now()
	}
}

// Placing ends the span of the wait, and starts that of the placing.
func (t *traced) Placing() trace.Span {
	if t == nil {
		return nil
	}
	_, wait := t.tracer.Start(t.ctx, "wait for group", trace.WithTimestamp(t.queued))
	wait.End()
	_, place := t.tracer.Start(t.ctx, "place")
	return place
}

// trace starts the spans of the group's transaction: one in each of its traces.
func (g *group) trace() []trace.Span {
	var members []*traced
	for _, c := range g.calls {
		if c.traced != nil {
			members = append(members, c.traced)
		}
	}
	if len(members) == 0 {
		return nil
	}
	size := trace.WithAttributes(attribute.Int("ipam.group.requests", len(g.calls)))
	links := make([]trace.Link, 0, len(members)-1)
	for _, m := range members[1:] {
		links = append(links, trace.LinkFromContext(m.ctx))
	}
	ctx, shared := members[0].tracer.Start(members[0].ctx, "etcd transaction", size, trace.WithLinks(links...))
	spans := []trace.Span{shared}
	link := trace.WithLinks(trace.LinkFromContext(ctx))
	for _, m := range members[1:] {
		_, span := m.tracer.Start(m.ctx, "etcd transaction", size, link)
		spans = append(spans, span)
	}
	return spans
}

// endSpans ends the spans of a transaction, and says whether its comparisons held.
func endSpans(spans []trace.Span, succeeded bool, err error) {
	for _, span := range spans {
		span.SetAttributes(attribute.Bool("ipam.transaction.succeeded", succeeded))
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
