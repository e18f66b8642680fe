package claim

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// kept is what is retained from a claim of that name, for so long from now.
func kept(claim string, left time.Duration) *ipamv1alpha1.IPAllocation {
	a := gen.Allocation(claim, "internal-a", "10.64.0.0/28", gen.ByClass("internal"), gen.Retained(), stage.HourAgo)
	a.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: claim + "/former"}
	if left != 0 {
		a.Status.Expires = &metav1.Time{Time: stage.Noon.Add(left)}
	}
	return a
}

// What is retained is shown with its end: in a list, for a claim that is gone, and beside a claim that
// waits for it.
func TestRetained(t *testing.T) {
	list := &ipamv1alpha1.IPAllocationList{Items: []ipamv1alpha1.IPAllocation{*kept("web", 36*time.Hour), *kept("db", 0)}}
	s := stage.New(t)
	out := output.Printer{Format: output.Wide}
	if err := out.Print(s.Out, list, s.Now); err != nil {
		t.Fatalf("Print: %v", err)
	}
	stage.Golden(t, "claim_list_retained", s.Printed.String())

	s = stage.New(t)
	describeRetained(s.Session, "web", kept("web", 36*time.Hour))
	stage.Golden(t, "claim_show_retained", s.Printed.String())

	s = stage.New(t)
	web := stage.Waiting(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), stage.HourAgo), ipamv1alpha1.ReasonAllocationRetained,
		"IPAllocation alloc-1 keeps 10.64.0.0/28 from a former claim of this name")
	describeClaim(s.Session, web, kept("web", -time.Second))
	stage.Golden(t, "claim_show_waits_for_retained", s.Printed.String())

	s = stage.New(t)
	if err := (question{claim: web, kept: kept("web", 36*time.Hour)}).explain(s.Session); err != nil {
		t.Fatalf("explain: %v", err)
	}
	stage.Golden(t, "why_retained", s.Printed.String())
}

// The commands that are offered ask for what is retained.
func TestSourceOf(t *testing.T) {
	ofPool, ofOther := kept("a", 0), kept("b", 0)
	ofPool.Spec.ClassName, ofOther.Spec.ClassName = "", ""
	ofOther.Spec.PoolRef = stage.OfPlatform("lab")
	for want, a := range map[string]*ipamv1alpha1.IPAllocation{
		" --class internal": kept("c", 0), " --pool internal-a": ofPool, " --pool lab --workspace root:ipam": ofOther,
	} {
		if got := sourceOf(a); got != want {
			t.Errorf("sourceOf(%+v) = %q, want %q", a.Spec, got, want)
		}
	}
}
