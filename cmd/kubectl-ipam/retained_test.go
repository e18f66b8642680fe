package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// kept is what is retained from a claim of that name, for so long from now.
func kept(claim string, left time.Duration) *ipamv1alpha1.IPAllocation {
	a := gen.Allocation(claim, "internal-a", "10.64.0.0/28", gen.ByClass("internal"), gen.Retained(), hourAgo)
	a.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: claim + "/former"}
	if left != 0 {
		a.Status.Expires = &metav1.Time{Time: noon.Add(left)}
	}
	return a
}

// What is retained is shown with its end: in a list, for a claim that is gone, and beside a claim that
// waits for it.
func TestRetained(t *testing.T) {
	list := &ipamv1alpha1.IPAllocationList{Items: []ipamv1alpha1.IPAllocation{*kept("web", 36*time.Hour), *kept("db", 0)}}
	s := newStage(t)
	out := output{format: outputWide}
	if err := out.print(s.Out, list, s.now); err != nil {
		t.Fatal(err)
	}
	golden(t, "claim_list_retained", s.out.String())

	s = newStage(t)
	describeRetained(s.session, "web", kept("web", 36*time.Hour))
	golden(t, "claim_show_retained", s.out.String())

	s = newStage(t)
	web := waiting(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), hourAgo), ipamv1alpha1.ReasonAllocationRetained,
		"IPAllocation alloc-1 keeps 10.64.0.0/28 from a former claim of this name")
	describeClaim(s.session, web, kept("web", -time.Second))
	golden(t, "claim_show_waits_for_retained", s.out.String())

	s = newStage(t)
	if err := (question{claim: web, kept: kept("web", 36*time.Hour)}).explain(s.session); err != nil {
		t.Fatal(err)
	}
	golden(t, "why_retained", s.out.String())
}

// The commands that are offered ask for what is retained.
func TestSourceOf(t *testing.T) {
	ofPool, ofOther := kept("a", 0), kept("b", 0)
	ofPool.Spec.ClassName, ofOther.Spec.ClassName = "", ""
	ofOther.Spec.PoolRef = ofPlatform("lab")
	for want, a := range map[string]*ipamv1alpha1.IPAllocation{
		" --class internal": kept("c", 0), " --pool internal-a": ofPool, " --pool lab --workspace root:ipam": ofOther,
	} {
		if got := sourceOf(a); got != want {
			t.Errorf("sourceOf(%+v) = %q, want %q", a.Spec, got, want)
		}
	}
}

// A class shows how long it retains, and what becomes of that.
func TestClass_Retains(t *testing.T) {
	class := gen.Class("internal", gen.Lease("72h"), gen.OnRetained(ipamv1alpha1.RetainedReuse), hourAgo)
	s := newStage(t)
	if err := describeClass(s.session, class, nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "class_show_retains", s.out.String())
}
