package check

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// Each way in which claims and records can disagree is found, and nothing else.
func TestBooks(t *testing.T) {
	pool := ipamv1alpha1.PoolRef{Name: "own"}
	claim := func(name, cidr string) ipamv1alpha1.IPClaim { return *stage.Bound(gen.Claim(name), cidr, pool) }
	record := func(name, cidr string) ipamv1alpha1.IPAllocation { return *gen.Allocation(name, "own", cidr) }
	foreign := record("web", "10.0.0.0/28")
	foreign.Spec.ClaimRef.UID = "another"
	for name, test := range map[string]struct {
		claims  []ipamv1alpha1.IPClaim
		records []ipamv1alpha1.IPAllocation
		want    []string
	}{
		"agree":         {[]ipamv1alpha1.IPClaim{claim("web", "10.0.0.0/28"), *gen.Claim("waits")}, []ipamv1alpha1.IPAllocation{record("web", "10.0.0.0/28")}, nil},
		"retained":      {nil, []ipamv1alpha1.IPAllocation{*gen.Allocation("web", "own", "10.0.0.0/28", gen.Retained())}, nil},
		"no record":     {[]ipamv1alpha1.IPClaim{claim("web", "10.0.0.0/28")}, nil, []string{"holds 10.0.0.0/28 and has no record"}},
		"no claim":      {nil, []ipamv1alpha1.IPAllocation{record("web", "10.0.0.0/28")}, []string{"its claim web is gone"}},
		"another block": {[]ipamv1alpha1.IPClaim{claim("web", "10.0.0.0/28")}, []ipamv1alpha1.IPAllocation{record("web", "10.0.0.16/28")}, []string{"holds 10.0.0.0/28, and its record says 10.0.0.16/28"}},
		"another claim": {[]ipamv1alpha1.IPClaim{claim("web", "10.0.0.0/28")}, []ipamv1alpha1.IPAllocation{foreign},
			[]string{"holds 10.0.0.0/28 and has no record", "its claim web is gone"}},
		"overlap": {
			[]ipamv1alpha1.IPClaim{claim("a", "10.0.0.0/24"), claim("b", "10.0.0.0/28"), claim("c", "10.0.0.64/28"), claim("d", "10.0.1.0/28")},
			[]ipamv1alpha1.IPAllocation{record("a", "10.0.0.0/24"), record("b", "10.0.0.0/28"), record("c", "10.0.0.64/28"), record("d", "10.0.1.0/28")},
			[]string{
				"10.0.0.64/28 overlaps 10.0.0.0/24 of default/" + ipamv1alpha1.AllocationName("default", "a"),
				"10.0.0.0/28 overlaps 10.0.0.0/24 of default/" + ipamv1alpha1.AllocationName("default", "a"),
			},
		},
	} {
		found := books{&reach.View{}, test.claims, test.records}.check()
		if len(found) != len(test.want) {
			t.Errorf("%s: found %+v; want %q", name, found, test.want)
			continue
		}
		said := map[string]bool{}
		for _, f := range found {
			said[f.Wrong] = true
		}
		for _, want := range test.want {
			if !said[want] {
				t.Errorf("%s: found %+v; want %q", name, found, want)
			}
		}
	}
}
