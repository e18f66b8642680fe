package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// flushGrace is how long it may take at shutdown to send the last traces.
const flushGrace = 5 * time.Second

// traceOptions say how much is traced, and where traces are sent.
type traceOptions struct {
	endpoint string
	ratio    float64
	service  string
}

func (o *traceOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.endpoint, "otlp-endpoint", o.endpoint,
		"URL of an OpenTelemetry collector that takes traces by gRPC, such as http://localhost:4317; empty for no traces")
	f.Float64Var(&o.ratio, "trace-ratio", o.ratio, "the share of the looks at claims that is traced, from 0 to 1")
	f.StringVar(&o.service, "otlp-service-name", o.service, "the service that the traces are of")
}

func (o traceOptions) validate() error {
	if !isShare(o.ratio) {
		return fmt.Errorf("--trace-ratio is %v; give it a share from 0 to 1", o.ratio)
	}
	if o.endpoint == "" {
		return nil
	}
	u, err := url.Parse(o.endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--otlp-endpoint is %q; give it a URL, http://host:port, or https:// for TLS", o.endpoint)
	}
	return nil
}

// startTraces returns a tracer, and a function that sends the last traces once all else has ended. Without an endpoint
// the tracer is nil.
func startTraces(ctx context.Context, opts traceOptions) (trace.Tracer, func(), error) {
	if opts.endpoint == "" {
		return nil, func() {}, nil
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(opts.endpoint))
	if err != nil {
		return nil, nil, fmt.Errorf("--otlp-endpoint %s: %w", opts.endpoint, err)
	}
	logger := log.FromContext(ctx).WithName("traces")
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.Info("traces are not sent", "endpoint", opts.endpoint, "error", err.Error())
	}))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(opts.ratio)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", opts.service))),
	)
	return provider.Tracer("github.com/kcp-ipam/ipam/controllers"), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushGrace)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			logger.Info("the last traces were not sent", "error", err.Error())
		}
	}, nil
}
