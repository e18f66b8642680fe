package claim

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// asking returns a claim for the range of a network, or of a location in it, with this address and length.
func asking(name, class, location, address string, length int32) *ipamv1alpha1.IPClaim {
	claim := ranged(scoped(name, class, "net", location))
	claim.Spec.Address, claim.Spec.PrefixLength = address, length
	return claim
}

// A claim for a range gets the CIDR or the length that it asks for. The pools above are made where the CIDR lies. A
// CIDR outside of the root pool, or a range that is too small for its blocks, is refused.
func TestRange_HasTheCIDRThatItsClaimAsksFor(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		claim          *ipamv1alpha1.IPClaim
		want           string
		reason         ipamv1alpha1.Reason
		says, networks string
	}{
		"a CIDR":         {asking("v", vpc, "", "2001:db8:7::/48", 0), "2001:db8:7::/48", "", "", "2001:db8:7::/48"},
		"another length": {asking("v", vpc, "", "", 44), "2001:db8::/44", "", "", "2001:db8::/44"},
		"of a location":  {asking("v", subnet, "ams", "2001:db8:7:3::/64", 0), "2001:db8:7:3::/64", "", "", "2001:db8:7::/48"},
		"outside of the root": {
			asking("v", vpc, "", "2001:db9::/48", 0), "", ipamv1alpha1.ReasonAddressOutOfRange, "2001:db9::/48", "",
		},
		"too small for its blocks": {
			asking("v", vpc, "", "", 64), "", ipamv1alpha1.ReasonPrefixLengthRejected, "too small for the blocks of class \"subnet\"", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
			answer := n.create(tt.claim)
			reason, message := reasonOf(answer)
			if answer.Status.AllocatedCIDR != tt.want || tt.reason != "" && (reason != tt.reason || !strings.Contains(message, tt.says)) {
				t.Errorf("answered %s, %s: %s; want %s%s %s", answer.Status.AllocatedCIDR, reason, message, tt.want, tt.reason, tt.says)
			}
			if networks := strings.Join(n.derived(vpc), " "); networks != tt.networks {
				t.Errorf("the networks are %s, want %s", networks, tt.networks)
			}
		})
	}
}

// A range may have another length than its class says. The pools and blocks of the classes below still come from it,
// and ranges that do not fit into it are refused.
func TestRange_MayHaveAnotherLengthThanItsClassSays(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	n.create(asking("v", vpc, "", "2001:db8:8000::/56", 0))
	if got := n.create(scoped("c", endpoint, "net", "ams")).Status.AllocatedCIDR; got != "2001:db8:8000::1:0:0/96" {
		t.Errorf("a claim inside is answered with %s, want 2001:db8:8000::1:0:0/96", got)
	}
	for name, tt := range map[string]struct {
		claim  *ipamv1alpha1.IPClaim
		reason ipamv1alpha1.Reason
		says   string
	}{
		"outside of its network":     {asking("w", subnet, "fra", "2001:db8:9000::/64", 0), ipamv1alpha1.ReasonAddressOutOfRange, "2001:db8:8000::/56"},
		"as large as its network":    {asking("w", subnet, "fra", "", 56), ipamv1alpha1.ReasonPrefixLengthRejected, "2001:db8:8000::/56"},
		"in use by another location": {asking("w", subnet, "fra", "2001:db8:8000::/64", 0), ipamv1alpha1.ReasonAddressInUse, "2001:db8:8000::/64"},
	} {
		if reason, message := reasonOf(n.create(tt.claim)); reason != tt.reason || !strings.Contains(message, tt.says) {
			t.Errorf("%s: answered %s: %s, want %s that names %s", name, reason, message, tt.reason, tt.says)
		}
	}
}

// A claim for an existing range is refused if it asks for another CIDR or length, and the refusal names the CIDR of the
// range. If it asks for the present CIDR or length, it holds the range.
func TestRange_RefusesAnotherCIDRThanItHas(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	n.create(scoped("c", endpoint, "net", "ams"))
	for name, tt := range map[string]struct {
		claim  *ipamv1alpha1.IPClaim
		reason ipamv1alpha1.Reason
	}{
		"another CIDR":       {asking("another-cidr", vpc, "", "2001:db8:7::/48", 0), ipamv1alpha1.ReasonRangeExists},
		"another length":     {asking("another-length", vpc, "", "", 47), ipamv1alpha1.ReasonRangeExists},
		"a CIDR around it":   {asking("around-it", vpc, "", "2001:db8::/47", 0), ipamv1alpha1.ReasonRangeExists},
		"of a location":      {asking("of-a-location", subnet, "ams", "2001:db8:0:1::/64", 0), ipamv1alpha1.ReasonRangeExists},
		"as it is":           {asking("v", vpc, "", "2001:db8::/48", 0), ipamv1alpha1.ReasonAllocationSucceeded},
		"of the same length": {asking("w", subnet, "ams", "", 64), ipamv1alpha1.ReasonAllocationSucceeded},
	} {
		answer := n.create(tt.claim)
		reason, message := reasonOf(answer)
		if reason != tt.reason {
			t.Errorf("%s: answered %s: %s, want %s", name, reason, message, tt.reason)
		}
		if refused := reason == ipamv1alpha1.ReasonRangeExists; refused && (!strings.Contains(message, "2001:db8:") || !answer.Refuse) {
			t.Errorf("%s: answered %q, refused %t; want a refusal that names the range", name, message, answer.Refuse)
		}
	}
}

// A class has the provisioning Held. A claim in a network that no claim holds is refused, and makes no pool. Once a
// claim holds the network, claims in it are served, also those that wait.
func TestRange_NeedsAHolderWhereProvisioningIsHeld(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	class := &ipamv1alpha1.IPClass{}
	must.Do(t, n.platform.Client.Get(t.Context(), client.ObjectKey{Name: vpc}, class))
	class.Spec.Provisioning = ipamv1alpha1.ProvisionHeld
	must.Do(t, n.platform.Client.Update(t.Context(), class))
	root := &ipamv1alpha1.IPPool{}
	must.Do(t, n.platform.Client.Get(t.Context(), client.ObjectKey{Name: "root"}, root))
	n.Reconciler.announced.note(root)
	n.keep(scoped("w", endpoint, "net", "ams"))
	n.reconcile("w")
	for name, claim := range map[string]*ipamv1alpha1.IPClaim{
		"a block":              scoped("c", endpoint, "net", "ams"),
		"a location":           asking("l", subnet, "ams", "", 0),
		"a block by its class": scoped("s", subnet, "net", "ams"),
	} {
		answer := n.create(claim)
		reason, message := reasonOf(answer)
		if reason != ipamv1alpha1.ReasonRangeNotHeld || !answer.Refuse || !strings.Contains(message, "network=net") {
			t.Errorf("%s is answered %s: %s, refused %t; want a refusal that names the scope", name, reason, message, answer.Refuse)
		}
	}
	if made := n.derived(vpc); len(made) > 0 {
		t.Fatalf("%v was made, want nothing", made)
	}

	n.create(asking("v", vpc, "", "", 0))
	if now := n.reconcile("w"); now.Status.AllocatedCIDR == "" {
		t.Errorf("the claim that waited is %+v once the network is held, want it bound", now.Status)
	}
	if got := n.create(scoped("d", endpoint, "net", "fra")).Status.AllocatedCIDR; got == "" {
		t.Error("a claim in a network that is held gets no answer, want a block")
	}
}
