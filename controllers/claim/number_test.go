package claim

import (
	"fmt"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// numbered returns networks with two classes of numbers: vni, which has two pools, and port, which has a pool in each
// network.
func numbered(t *testing.T) *networks {
	t.Helper()
	single, platform := gen.Lengths{Min: 128, Max: 128}, gen.Visible(ipamv1alpha1.VisibilityPlatform)
	v6 := gen.Family(ipamv1alpha1.IPv6)
	a := readyPool("a", "fd00::1000/116", gen.Backs("vni"), platform)
	b := readyPool("b", "fd00::2000/116", gen.Backs("vni"), platform)
	a.Status.IPFamily, b.Status.IPFamily = ipamv1alpha1.IPv6, ipamv1alpha1.IPv6
	return newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject, a, b,
		gen.Class("vni", v6, single, gen.Numbers(24)), gen.Class("port", v6, single, gen.Numbers(16), gen.Below(vpc)))
}

// numberOf returns the number that a status shows, as text.
func numberOf(number *int64) string {
	if number == nil {
		return "none"
	}
	return fmt.Sprint(*number)
}

// The answer, the claim and the record show the number of the address. By a class without numbers they show none.
func TestNumber_IsShown(t *testing.T) {
	t.Parallel()
	n := numbered(t)
	claim := gen.Claim("c", gen.OfClass("vni"))
	answer := n.create(claim)
	n.stored(claim, answer)
	now := n.reconcile("c")
	record := gen.Allocation("c", "", "")
	testbed.Read(t, n.tenant.Client, record)
	for where, number := range map[string]*int64{"answer": answer.Status.Number, "claim": now.Status.Number, "record": record.Status.Number} {
		if got := numberOf(number); got != "4096" || now.Status.AllocatedCIDR != "fd00::1000/128" {
			t.Errorf("the number of %s in the %s is %s, want 4096", now.Status.AllocatedCIDR, where, got)
		}
	}
	if plain := n.create(scoped("d", endpoint, "net", "ams")); plain.Status.Number != nil {
		t.Errorf("a claim by a class without numbers has %d, want none", *plain.Status.Number)
	}
}

// A claim that asks for a number gets this number, from whichever pool has it, or is refused.
func TestNumber_IsGivenIfAskedFor(t *testing.T) {
	t.Parallel()
	n := numbered(t)
	n.create(gen.Claim("taken", gen.OfClass("vni"), gen.Number(0x2007)))
	in := gen.Within("network", "net", "location", "ams")
	for name, tt := range map[string]struct {
		claim  *ipamv1alpha1.IPClaim
		number string
		reason ipamv1alpha1.Reason
		says   string
	}{
		"of the second pool":   {gen.Claim("second", gen.OfClass("vni"), gen.Number(0x2008)), "8200", ipamv1alpha1.ReasonAllocationSucceeded, ""},
		"in use":               {gen.Claim("x", gen.OfClass("vni"), gen.Number(0x2007)), "none", ipamv1alpha1.ReasonAddressInUse, "number 8199"},
		"in no pool":           {gen.Claim("x", gen.OfClass("vni"), gen.Number(7)), "none", ipamv1alpha1.ReasonAddressOutOfRange, "the number 7"},
		"too large":            {gen.Claim("x", gen.OfClass("vni"), gen.Number(1<<24)), "none", ipamv1alpha1.ReasonAddressOutOfRange, "0 to 16777215"},
		"of a class without":   {gen.Claim("x", gen.OfClass(endpoint), in, gen.Number(7)), "none", ipamv1alpha1.ReasonAddressOutOfRange, "no numbers"},
		"in a pool of a scope": {gen.Claim("port", gen.OfClass("port"), in, gen.Number(8080)), "8080", ipamv1alpha1.ReasonAllocationSucceeded, ""},
	} {
		answer := n.create(tt.claim)
		if reason, message := reasonOf(answer); reason != tt.reason || numberOf(answer.Status.Number) != tt.number || !strings.Contains(message, tt.says) {
			t.Errorf("%s: answered %s, %s: %s; want %s, %s %q", name, numberOf(answer.Status.Number), reason, message, tt.number, tt.reason, tt.says)
		}
	}
}
