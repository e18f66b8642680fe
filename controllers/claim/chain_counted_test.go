package claim

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A workspace that has as many pools as it may has no more of them made for all workspaces, and no address spaces. Its former pools serve
// its claims still, and those of others are made.
func TestChain_ManyPoolsOfOneWorkspace(t *testing.T) {
	t.Parallel()
	const overlay = "overlay"
	flat := gen.Class(overlay, gen.DefaultLength(32))
	flat.Spec.UniqueWithin = []string{"network"}
	pool := readyPool("flat", "10.9.0.0/16", gen.Backs(overlay), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	for class, location := range map[string]string{endpoint: "ams", overlay: ""} {
		n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleAllProjects, flat, pool)
		if class == overlay {
			n.register(pool)
		}
		first := n.create(scoped("c", class, "net", location))
		n.MaxPools = n.ledger.Pools().Count("tenant")
		if reason, message := reasonOf(n.create(scoped("d", class, "other", location))); reason != ipamv1alpha1.ReasonQuotaExceeded || !strings.Contains(message, "limit of a workspace") {
			t.Errorf("%s: the next network is answered %s: %s, want QuotaExceeded", class, reason, message)
		}
		second := n.create(scoped("e", class, "net", location))
		if first.Status.AllocatedCIDR == "" || second.Status.AllocatedCIDR == "" || n.MaxPools == 0 {
			t.Errorf("%s: the network that is there is answered %+v and %+v, with %d pools counted; want a block of each", class, first.Status, second.Status, n.MaxPools)
		}
		theirs, err := n.answered("platform", scoped("f", class, "theirs", location))
		if err != nil || theirs.Status.AllocatedCIDR == "" {
			t.Errorf("%s: a network of the platform is answered %+v, %v; want a block", class, theirs.Status, err)
		}
	}
}
