package claim

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// again replaces a class by a later one of the same name, with another length.
func (n *networks) again(class string, length int32) {
	n.Helper()
	made := &ipamv1alpha1.IPClass{}
	must.Do(n, n.platform.Client.Get(n.Context(), client.ObjectKey{Name: class}, made))
	made.CreationTimestamp, made.Spec.DefaultPrefixLength = metav1.NewTime(time.Now().Add(time.Hour)), length
	must.Do(n, n.platform.Client.Update(n.Context(), made))
}

// An earlier class of the same name has made pools that are idle now. A claim retires them, with the pools below them,
// and gets new ones. A dry run says that the claim would be bound, and retires nothing.
func TestChain_ReplacesIdlePoolsOfAFormerClass(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	for _, location := range []string{"ams", "fra"} {
		claim := scoped("c-"+location, endpoint, "net", location)
		must.Do(t, n.ledger.Release(t.Context(), ledger.ClaimID(id(n.create(claim)))))
	}
	n.again(vpc, 44)
	n.again(subnet, 60)
	claim := scoped("d", endpoint, "net", "lon")
	preview := must.Get(n.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim, DryRun: true}))(t)
	if reason, message := reasonOf(preview); reason != ipamv1alpha1.ReasonAllocationSucceeded || len(n.derived(subnet)) != 2 || n.derived(vpc)[0] != "2001:db8::/48" {
		t.Errorf("a dry run is answered %s: %s, and leaves %v and %v; want it bound, and the former pools", reason, message, n.derived(vpc), n.derived(subnet))
	}
	answer := n.create(claim)
	if reason, message := reasonOf(answer); reason != ipamv1alpha1.ReasonAllocationSucceeded {
		t.Fatalf("answered %s: %s; want it bound", reason, message)
	}
	if net, loc := n.derived(vpc), n.derived(subnet); !slices.Equal(net, []string{"2001:db8::/44"}) || !slices.Equal(loc, []string{"2001:db8::/60"}) {
		t.Errorf("the pools are %v and %v; want one of each new length", net, loc)
	}
}

// If addresses cool in a pool of a former class, a claim does not replace the pool, and is refused: without the pool,
// the ledger would forget the cooldowns.
func TestChain_LeavesCoolingPoolsOfAFormerClass(t *testing.T) {
	t.Parallel()
	alloc := testbed.Ledger(t, etcdtest.New(t).Client(), allocator.Options{Cooldown: func(ledger.Block) (time.Duration, error) { return time.Hour, nil }})
	n := newNetworksOn(t, alloc, "2001:db8::/32", ipamv1alpha1.RoleProject)
	answer := n.create(scoped("c", endpoint, "net", "ams"))
	for p := range alloc.Derived().All() {
		if p.Derived.Class == subnet {
			must.Get(alloc.Bind(t.Context(), ledger.Request{Pool: p.ID, Length: 96, Holder: ledger.Holder{Claim: "bound", Cluster: "tenant", Namespace: "default", Name: "b"}}))(t)
		}
	}
	must.Do(t, alloc.Release(t.Context(), "bound"))
	must.Do(t, alloc.Release(t.Context(), ledger.ClaimID(id(answer))))
	n.again(subnet, 60)
	if reason, message := reasonOf(n.create(scoped("d", endpoint, "net", "ams"))); reason != ipamv1alpha1.ReasonChainBroken {
		t.Errorf("answered %s: %s; want %s while an address cools", reason, message, ipamv1alpha1.ReasonChainBroken)
	}
}
