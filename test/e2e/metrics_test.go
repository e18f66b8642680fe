package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/otlp"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A pool of the platform is in the metrics, with what is free of it, until it is gone.
func TestMetrics_OfAPool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(s.cidr)
	claim := s.holds("c", gen.Length(18))
	series := `{pool="` + pool.Name + `"`
	for _, length := range []string{"17", "18"} { // a /18 leaves both of a /16
		s.platform.WaitMetric(t, "ipam_pool_free_blocks"+series+`,prefix_length="`+length+`"} `, "1")
	}
	if s.platform.Metric(t, "etcd_disk_wal_fsync_duration_seconds_count ") == "" || s.platform.Metric(t, `ipam_etcd_up{endpoint="embedded"} `) != "1" {
		t.Error("the embedded etcd is not in the metrics")
	}
	framework.Delete(t, s.tenant, claim)
	framework.WaitGone(t, s.tenant, claim)
	framework.Eventually(t, "the pool to be deleted", func(ctx context.Context) error { return s.platform.Delete(ctx, gen.Pool(pool.Name)) })
	framework.WaitGone(t, s.platform, pool)
	framework.Eventually(t, "the pool to be out of the metrics", func(context.Context) error {
		if strings.Contains(s.platform.Metrics(t), series) {
			return errors.New("it is there")
		}
		return nil
	})
}

// The trace of an answer leads to the transaction that reserves the block, that of the look at the
// claim to the one that confirms it, and to the record. The log names it.
func TestTraces_OfAClaim(t *testing.T) {
	t.Parallel()
	receiver := otlp.New(t)
	platform := framework.NewPlatform(t).Replica(t, "traced", "--otlp-endpoint="+receiver.URL, "--trace-ratio=1")
	platform.StartController(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	claim := answered(t, tenant, gen.Claim("web", gen.OfClass(name), gen.Length(28)), create)
	framework.WaitBound(t, tenant, claim)

	of := func(name string) func([]otlp.Span) bool {
		return func(trace []otlp.Span) bool {
			return slices.ContainsFunc(trace, func(s otlp.Span) bool {
				return s.Name == name && s.Attribute("ipam.claim") == "default/web" && s.Attribute("ipam.prefix") == claim.Status.AllocatedCIDR &&
					s.Attribute("ipam.cluster") == string(tenant.Cluster) && (name == "answer" || s.Attribute("ipam.result") == "bound")
			})
		}
	}
	showsSteps(t, receiver.Wait(t, of("answer")), map[string]string{
		"resolve": "answer", "reserve": "answer", "wait for group": "reserve", "place": "reserve", "etcd transaction": "reserve",
	})
	reconcile := showsSteps(t, receiver.Wait(t, of("reconcile")), map[string]string{
		"confirm": "reconcile", "etcd transaction": "confirm", "create record": "reconcile",
	})["reconcile"]
	id := `"trace_id":"` + hex.EncodeToString(reconcile.TraceId) + `"`
	if !slices.ContainsFunc(platform.Log(t), func(line string) bool {
		return strings.Contains(line, `"msg":"bound"`) && strings.Contains(line, id)
	}) {
		t.Errorf("no line of the log says what was bound, and %s", id)
	}
}

// showsSteps fails the test unless each span is in the trace, below another one. It returns the
// spans by name.
func showsSteps(t *testing.T, trace []otlp.Span, below map[string]string) map[string]otlp.Span {
	t.Helper()
	names := map[string]otlp.Span{}
	for _, span := range trace {
		names[span.Name] = span
	}
	for child, parent := range below {
		if span, ok := names[child]; !ok || !bytes.Equal(span.ParentSpanId, names[parent].SpanId) {
			t.Errorf("%q is not below %q (in the trace: %t)", child, parent, ok)
		}
	}
	return names
}
