// Package otlp takes traces as an OpenTelemetry collector does, in the process of a test.
package otlp

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/kcp-ipam/ipam/test/must"
)

// Receiver receives spans by gRPC until its test ends. It is safe for concurrent use.
type Receiver struct {
	collector.UnimplementedTraceServiceServer

	// URL is where it listens.
	URL string

	mu    sync.Mutex
	spans []Span
	grown chan struct{} // closed, and replaced, when there are more spans
}

// Span is a span and the service that has sent it.
type Span struct {
	*tracepb.Span
	Service string
}

// New starts a receiver.
func New(t testing.TB) *Receiver {
	t.Helper()
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	r := &Receiver{URL: "http://" + listener.Addr().String(), grown: make(chan struct{})}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return r
}

// Export implements collector.TraceServiceServer.
func (r *Receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		service := find(resource.GetResource().GetAttributes(), "service.name")
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				r.spans = append(r.spans, Span{span, service})
			}
		}
	}
	close(r.grown)
	r.grown = make(chan struct{})
	return &collector.ExportTraceServiceResponse{}, nil
}

// Spans returns the spans that were received so far.
func (r *Receiver) Spans() []Span {
	spans, _ := r.look()
	return spans
}

func (r *Receiver) look() ([]Span, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...), r.grown
}

// patience is how long a trace may take to come. A batch is sent every five seconds.
const patience = time.Minute

// Wait returns the spans of the first trace for which pick returns true. It calls pick with all spans of one trace.
// It fails the test if no such trace comes within a minute.
func (r *Receiver) Wait(t testing.TB, pick func(trace []Span) bool) []Span {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		spans, grown := r.look()
		traces := map[string][]Span{}
		for _, span := range spans {
			id := string(span.TraceId)
			traces[id] = append(traces[id], span)
		}
		for _, trace := range traces {
			if pick(trace) {
				return trace
			}
		}
		select {
		case <-grown:
		case <-late.C:
			t.Fatalf("no such trace was received within %s, among %d", patience, len(traces))
		}
	}
}

// Attribute returns the value of an attribute that is a string; empty if there is none.
func (s Span) Attribute(key string) string { return find(s.Attributes, key) }

func find(attributes []*commonpb.KeyValue, key string) string {
	for _, attribute := range attributes {
		if attribute.Key == key {
			return attribute.GetValue().GetStringValue()
		}
	}
	return ""
}
