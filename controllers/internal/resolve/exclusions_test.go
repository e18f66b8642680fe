package resolve_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

func TestExcluded_MergesAllThatThePoolKeepsBack(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cidr    string
		options []gen.PoolOption
		want    []string
	}{
		{"nothing", "10.0.0.0/24", nil, nil},
		{"network and broadcast", "10.0.0.0/24", []gen.PoolOption{gen.Reserves(1, 1, 0)}, []string{"10.0.0.0/32", "10.0.0.255/32"}},
		{"whole blocks", "10.0.0.0/16", []gen.PoolOption{gen.Reserves(2, 1, 24)}, []string{"10.0.0.0/23", "10.0.255.0/24"}},
		{"an odd number of blocks", "10.0.0.0/16", []gen.PoolOption{gen.Reserves(3, 0, 24)}, []string{"10.0.0.0/23", "10.0.2.0/24"}},
		{"more than there is", "10.0.0.0/30", []gen.PoolOption{gen.Reserves(9, 9, 0)}, []string{"10.0.0.0/30"}},
		{"more than an integer holds", "2001:db8::/32", []gen.PoolOption{gen.Reserves(1<<31-1, 0, 33)}, []string{"2001:db8::/32"}},
		{"the first /96 of a /64", "2001:db8::/64", []gen.PoolOption{gen.Reserves(1, 0, 96)}, []string{"2001:db8::/96"}},
		{"half of all IPv6", "::/0", []gen.PoolOption{gen.Reserves(0, 1, 1)}, []string{"8000::/1"}},
		{"a CIDR inside", "10.0.0.0/24", []gen.PoolOption{gen.Excludes("10.0.0.64/26")}, []string{"10.0.0.64/26"}},
		{"a CIDR that reaches out", "10.0.0.0/24", []gen.PoolOption{gen.Excludes("10.0.0.0/8")}, []string{"10.0.0.0/24"}},
		{"a CIDR elsewhere", "10.0.0.0/24", []gen.PoolOption{gen.Excludes("192.0.2.0/24")}, nil},
		{"a gateway", "10.0.0.0/24", []gen.PoolOption{gen.Gateway("10.0.0.1", 0)}, []string{"10.0.0.0/31", "10.0.0.255/32"}},
		{"a gateway of a part of a network", "10.0.0.64/26", []gen.PoolOption{gen.Gateway("10.0.0.65", 24)}, []string{"10.0.0.65/32"}},
		{"a gateway of IPv6", "2001:db8::/64", []gen.PoolOption{gen.Gateway("2001:db8::1", 0)}, []string{"2001:db8::/127"}},
		{"overlapping ones count once", "10.0.0.0/24", []gen.PoolOption{gen.Reserves(2, 0, 0), gen.Excludes("10.0.0.0/30", "10.0.0.4/30")},
			[]string{"10.0.0.0/29"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := must.Get(resolve.Excluded(netip.MustParsePrefix(tt.cidr), gen.Pool("p", tt.options...).Spec))(t)
			names := make([]string, 0, len(got))
			for _, p := range got {
				names = append(names, p.String())
			}
			if diff := cmp.Diff(tt.want, names, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("excluded (-want +got):\n%s", diff)
			}
		})
	}
}

// The excluded prefixes of a pool lie inside it, in network form and in order, and have no address twice. If the pool
// reserves its edges, both edges are excluded.
func FuzzExcluded(f *testing.F) {
	f.Add("10.0.0.0/24", "10.0.0.64/26", int32(1), int32(1), int32(0))
	f.Add("10.0.0.0/24", "0.0.0.0/0", int32(0), int32(0), int32(0))
	f.Add("10.0.0.0/24", "", int32(3), int32(1), int32(64))
	f.Add("::/0", "::ffff:10.0.0.0/104", int32(1<<31-1), int32(1), int32(1))
	f.Add("2001:db8::/32", "10.0.0.0/8", int32(-1), int32(2), int32(128))
	f.Add("0.0.0.0/0", "10.0.0.1/24", int32(1), int32(1), int32(-7))
	f.Fuzz(func(t *testing.T, pool, exclusion string, leading, trailing, unit int32) {
		cidr, err := netip.ParsePrefix(pool)
		if err != nil || cidr != cidr.Masked() {
			return
		}
		spec := gen.Pool("p", gen.Reserves(leading, trailing, unit)).Spec
		if exclusion != "" {
			spec.ExcludedCIDRs = []ipamv1alpha1.CIDR{ipamv1alpha1.CIDR(exclusion)}
		}
		got, err := resolve.Excluded(cidr, spec)
		if err != nil {
			return
		}
		for i, p := range got {
			if p != p.Masked() || p.Bits() < cidr.Bits() || !cidr.Contains(p.Addr()) {
				t.Errorf("%s is no block of %s", p, cidr)
			}
			if i > 0 && !netipx.PrefixLastIP(got[i-1]).Less(p.Addr()) {
				t.Errorf("%s comes after %s", p, got[i-1])
			}
		}
		edges := netipx.RangeOfPrefix(cidr)
		if leading > 0 && (len(got) == 0 || got[0].Addr() != edges.From()) {
			t.Errorf("the first of %s is not kept back: %v", cidr, got)
		}
		if trailing > 0 && (len(got) == 0 || netipx.PrefixLastIP(got[len(got)-1]) != edges.To()) {
			t.Errorf("the last of %s is not kept back: %v", cidr, got)
		}
	})
}
