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

// The trace of a claim leads from the look at it to the transaction and the two writes,
// and the log names it.
func TestTraces_OfAClaim(t *testing.T) {
	t.Parallel()
	receiver := otlp.New(t)
	platform := framework.NewPlatform(t).Replica(t, "traced", "--otlp-endpoint="+receiver.URL, "--trace-ratio=1")
	platform.StartController(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	claim := gen.Claim("web", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, claim)
	framework.WaitBound(t, tenant, claim)

	spans := receiver.Wait(t, func(trace []otlp.Span) bool {
		return slices.ContainsFunc(trace, func(s otlp.Span) bool {
			return s.Name == "reconcile" && s.Attribute("ipam.claim") == "default/web" && s.Attribute("ipam.result") == "bound"
		})
	})
	names := map[string]otlp.Span{}
	for _, span := range spans {
		names[span.Name] = span
	}
	reconcile, allocate := names["reconcile"], names["allocate"]
	if reconcile.Attribute("ipam.cluster") != string(tenant.Cluster) || reconcile.Attribute("ipam.prefix") != claim.Status.AllocatedCIDR {
		t.Errorf("it is the look at a claim of %s that got %s; want %s, %s", reconcile.Attribute("ipam.cluster"),
			reconcile.Attribute("ipam.prefix"), tenant.Cluster, claim.Status.AllocatedCIDR)
	}
	for child, parent := range map[string]otlp.Span{
		"resolve": reconcile, "allocate": reconcile, "create record": reconcile, "patch status": reconcile,
		"wait for group": allocate, "place": allocate, "etcd transaction": allocate,
	} {
		if span, ok := names[child]; !ok || !bytes.Equal(span.ParentSpanId, parent.SpanId) {
			t.Errorf("%q is not below %q (in the trace: %t)", child, parent.Name, ok)
		}
	}
	id := `"trace_id":"` + hex.EncodeToString(reconcile.TraceId) + `"`
	if !slices.ContainsFunc(platform.Log(t), func(line string) bool {
		return strings.Contains(line, `"msg":"bound"`) && strings.Contains(line, id)
	}) {
		t.Errorf("no line of the log says what was bound, and %s", id)
	}
}
