package config

import (
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

func TestIPAllocation_Update(t *testing.T) {
	d := tenantDoors(t)["IPAllocation"]
	const pool, cidr = "p", "10.0.0.0/28"
	old := gen.Allocation("web", pool, cidr, gen.ByClass("internal"))
	adopted := old.DeepCopy()
	adopted.Spec.ClaimRef.UID = "another"
	for _, tt := range []struct {
		name     string
		old, new *ipamv1alpha1.IPAllocation
		want     string
	}{
		{"written", nil, old, ""},
		{"retained", old, gen.Allocation("web", pool, cidr, gen.ByClass("internal"), gen.Retained()), ""},
		{"policy", old, gen.Allocation("web", pool, cidr, gen.ByClass("internal"), gen.Reclaim("Retain")), ""},
		{"handed to another claim", old, adopted, "spec.claimRef may only be removed"},
		{"bound again", gen.Allocation("web", pool, cidr, gen.Retained()), gen.Allocation("web", pool, cidr), "spec.claimRef may only be removed"},
		{"pool", old, gen.Allocation("web", "q", cidr, gen.ByClass("internal")), "spec.poolRef is immutable"},
		{"class", old, gen.Allocation("web", pool, cidr), "spec.className is immutable"},
		{"family", old, gen.Allocation("web", pool, cidr, gen.ByClass("internal"), gen.Family("IPv6")), "spec.ipFamily is immutable"},
		{"block", old, gen.Allocation("web", pool, "10.0.0.16/28", gen.ByClass("internal")), "status.allocatedCIDR is immutable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before map[string]any
			if tt.old != nil {
				before = object(t, tt.old)
			}
			expect(t, d.refusals(object(t, tt.new), before), tt.want)
		})
	}
}
