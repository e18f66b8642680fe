package allocator

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/test/framework/otlp"
	"github.com/kcp-ipam/ipam/test/must"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// tracedBinds binds claims, the first alone and the others in one transaction, each in a trace of its own, and returns
// the traces by claim.
func tracedBinds(t *testing.T, others int) map[string][]otlp.Span {
	t.Helper()
	receiver := otlp.New(t)
	exporter := must.Get(otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpointURL(receiver.URL)))(t)
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	l := withPool(t, "10.0.0.0/24")
	bind := func(claim string) func() {
		return func() {
			ctx, span := provider.Tracer("test").Start(t.Context(), claim)
			defer span.End()
			if _, err := l.Bind(ctx, request("p", claim, 28)); err != nil {
				t.Errorf("a bind in the group: %v", err)
			}
		}
	}
	calls := make([]func(), others)
	for i := range calls {
		calls[i] = bind(fmt.Sprint("c", i))
	}
	l.grouped(bind("alone"), calls...)
	l.waitIdle(t)
	must.Do(t, provider.Shutdown(t.Context()))
	traces := map[string][]otlp.Span{}
	for _, root := range receiver.Spans() {
		if len(root.ParentSpanId) > 0 {
			continue
		}
		for _, span := range receiver.Spans() {
			if bytes.Equal(span.TraceId, root.TraceId) {
				traces[root.Name] = append(traces[root.Name], span)
			}
		}
	}
	return traces
}

func spanOf(t *testing.T, spans []otlp.Span, name string) otlp.Span {
	t.Helper()
	at := slices.IndexFunc(spans, func(s otlp.Span) bool { return s.Name == name })
	if at < 0 {
		t.Fatalf("a trace has no span %q", name)
	}
	return spans[at]
}

func TestTrace_HasTheStepsOfABind(t *testing.T) {
	spans := tracedBinds(t, 0)["alone"]
	allocate := spanOf(t, spans, "allocate")
	if root := spanOf(t, spans, "alone"); !bytes.Equal(allocate.ParentSpanId, root.SpanId) {
		t.Error("the allocation is not below the span of its caller")
	}
	for _, name := range []string{"wait for group", "place", "etcd transaction"} {
		if !bytes.Equal(spanOf(t, spans, name).ParentSpanId, allocate.SpanId) {
			t.Errorf("%q is not below the allocation", name)
		}
	}
}

// A transaction that several claims share is in the trace of each, and links lead from one to the others.
func TestTrace_LinksTheClaimsOfATransaction(t *testing.T) {
	const others = 3
	traces := tracedBinds(t, others)
	var shared otlp.Span
	linked := map[string]bool{}
	for i := range others {
		span := spanOf(t, traces[fmt.Sprint("c", i)], "etcd transaction")
		if len(span.Links) == others-1 {
			shared = span
			continue
		}
		if len(span.Links) != 1 {
			t.Fatalf("a transaction has %d links", len(span.Links))
		}
		linked[string(span.Links[0].SpanId)] = true
	}
	if shared.Span == nil || len(linked) != 1 || !linked[string(shared.SpanId)] {
		t.Fatal("the claims of a group do not lead to one transaction")
	}
	for i := range others {
		allocate := spanOf(t, traces[fmt.Sprint("c", i)], "allocate")
		leads := slices.ContainsFunc(shared.Links, func(l *tracepb.Span_Link) bool { return bytes.Equal(l.SpanId, allocate.SpanId) })
		if own := bytes.Equal(shared.TraceId, allocate.TraceId); leads == own {
			t.Errorf("the transaction leads to c%d: %t; it is in its trace: %t", i, leads, own)
		}
	}
}

// A call without a trace allocates no memory for it.
func TestTrace_CostsNothingIfItIsOff(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		_, span := engine.StartSpan(ctx, "allocate")
		traced := engine.NewTraced(ctx)
		traced.Requeued()
		engine.EndSpan(traced.Placing(), nil)
		engine.EndSpan(span, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
