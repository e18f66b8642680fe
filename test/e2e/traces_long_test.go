//go:build long

package e2e

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/otlp"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The trace of an answer contains the transaction that reserves the block. The trace of the claim's reconcile
// contains the transaction that confirms it, and the record. The log names the trace.
func TestLong_TracesOfAClaim(t *testing.T) {
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

// showsSteps fails the test unless each span is in the trace, below the other span that it names. It returns the
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
