package resolve_test

import (
	"net/netip"
	"testing"

	"go4.org/netipx"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Whatever a pool reserves and excludes is inside of it, in network form and in order,
// no address twice; and both edges are kept back where that was asked for.
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
