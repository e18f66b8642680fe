package resolve_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Whatever a claim asks for, it gets a block from within the pool, at a length that the pool hands out, or a refusal
// with a reason.
func FuzzResolve_ByAddress(f *testing.F) {
	f.Add("10.0.0.0/24", "10.0.0.7", 0, 0, 0, "")
	f.Add("10.0.0.0/24", "10.0.0.0/28", 28, 0, 0, "IPv4")
	f.Add("10.0.0.0/24", "", 28, 26, 30, "")
	f.Add("2001:db8::/32", "2001:db8::1", 0, 0, 0, "IPv6")
	f.Add("10.0.0.0/24", "::ffff:10.0.0.1", 0, 0, 0, "")
	f.Add("10.0.0.0/24", "10.0.0.1", 129, 0, 0, "")
	f.Add("::/0", "fe80::1%eth0", -1, 0, 128, "")
	f.Add("10.0.0.0/8", "0.0.0.0/0", 0, 64, 128, "")
	f.Fuzz(func(t *testing.T, cidr, address string, length, shortest, longest int, family string) {
		within, err := netip.ParsePrefix(cidr)
		if err != nil || within != within.Masked() || within.Addr().Is4In6() {
			return // admission lets canonical forms through, and nothing else
		}
		pool := ready(gen.Pool("p", gen.CIDR(ipamv1alpha1.CIDR(cidr)), gen.Lengths{Min: int32(shortest), Max: int32(longest)}))
		claim := gen.Claim("c", gen.FromPool("p"), gen.Address(address), gen.Length(int32(length)), gen.Family(family))
		plan, err := query(web, claim).Resolve(world{pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{web: {pool}}})
		if err != nil {
			isRefusal(t, err)
			return
		}
		for _, c := range plan.Candidates {
			if c.Length < within.Bits() || c.Length > within.Addr().BitLen() {
				t.Errorf("a block of /%d is taken from %s", c.Length, within)
			}
			if c.Length < shortest || longest > 0 && c.Length > longest {
				t.Errorf("a block of /%d, where %d to %d is allowed", c.Length, shortest, longest)
			}
		}
		exact := plan.Exact
		if (address != "") != exact.IsValid() {
			t.Errorf("address %q is read as %s", address, exact)
		}
		if exact.IsValid() && (exact != exact.Masked() || !within.Contains(exact.Addr()) || exact.Bits() < within.Bits()) {
			t.Errorf("%q is served by %s of pool %s", address, exact, within)
		}
	})
}

// A selector finds only pools of the claim's own workspace that have the label.
func FuzzResolve_BySelector(f *testing.F) {
	f.Add("tier", "In", "web", "root:acme:web")
	f.Add("tier", "Exists", "", "")
	f.Add("no/such/key", "NotIn", "\n", "root:acme:db")
	f.Add("", "", "", "root:ipam")
	f.Fuzz(func(t *testing.T, key, operator, value, workspace string) {
		own := ready(gen.Pool("own", gen.Label("tier", "web")))
		others := map[directory.Workspace][]*ipamv1alpha1.IPPool{
			web:      {own},
			db:       {ready(gen.Pool("private", gen.Label(key, value)))},
			platform: {ready(gen.Pool("all", gen.Label(key, value), gen.Visible(ipamv1alpha1.VisibilityPlatform)))},
		}
		claim := gen.Claim("c", gen.Length(28))
		claim.Spec.PoolSelector = &ipamv1alpha1.PoolSelector{
			ProjectRef:       &ipamv1alpha1.ProjectRef{Name: workspace},
			MatchExpressions: []ipamv1alpha1.LabelRequirement{{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: []string{value}}},
		}
		plan, err := query(web, claim).Resolve(world{pools: others})
		if err != nil {
			isRefusal(t, err)
			return
		}
		if workspace != web.Path || !slices.Equal(pools(plan), []string{"own"}) {
			t.Errorf("a selector of %q %s %q in %q finds %v", key, operator, value, workspace, pools(plan))
		}
	})
}

// isRefusal fails the test unless an error is a refusal.
func isRefusal(t *testing.T, err error) {
	t.Helper()
	if refusal, ok := errors.AsType[*outcome.Refusal](err); !ok || refusal.Reason == "" || refusal.Message == "" {
		t.Errorf("%v is no refusal", err)
	}
}
