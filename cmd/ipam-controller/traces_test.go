package main

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/framework/otlp"
)

func TestTraces(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ratio float64
		want  int
	}{
		{"all", 1, 10},
		{"none", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			receiver := otlp.New(t)
			opts := traceOptions{endpoint: receiver.URL, service: "ipam-east", ratio: tt.ratio}
			tracer, flush, err := startTraces(t.Context(), opts)
			if err != nil {
				t.Fatalf("startTraces: %v", err)
			}
			for range 10 {
				_, span := tracer.Start(t.Context(), "look")
				span.End()
			}
			flush()
			spans := receiver.Spans()
			if len(spans) != tt.want {
				t.Errorf("%d spans were sent, want %d", len(spans), tt.want)
			}
			for _, span := range spans {
				if span.Service != "ipam-east" || span.Name != "look" {
					t.Errorf("a span is %q of %q", span.Name, span.Service)
				}
			}
		})
	}
}

func TestTraces_AreOffWithoutAnEndpoint(t *testing.T) {
	tracer, flush, err := startTraces(t.Context(), traceOptions{})
	if tracer != nil || err != nil {
		t.Errorf("without an endpoint there is a tracer %v, error %v", tracer, err)
	}
	flush()
}
