package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// newOverlapping returns networks whose root pool gives the same addresses to each network.
func newOverlapping(t *testing.T, cidr ipamv1alpha1.CIDR, tenancy string, more ...client.Object) *networks {
	t.Helper()
	n := newNetworks(t, cidr, tenancy, more...)
	n.uniqueWithin(vpc, `["network"]`)
	return n
}

// uniqueWithin changes the field uniqueWithin of a class.
func (n *networks) uniqueWithin(class, roles string) {
	n.Helper()
	must.Do(n, n.platform.Client.Patch(n.Context(), gen.Class(class), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"uniqueWithin":`+roles+`}}`))))
}

// Two networks have the same CIDR, and locations and endpoints with the same addresses in it. Within one network no
// address is given twice. A root pool that one network fills has room for all others. A dry run gets the same answers.
func TestOverlapping_GivesEachNetworkTheSameAddresses(t *testing.T) {
	t.Parallel()
	n := newOverlapping(t, "2001:db8::/48", ipamv1alpha1.RoleProject)
	var got []string
	for _, at := range []string{"red/ams", "blue/ams", "red/ams", "red/fra", "blue/fra"} {
		network, location, _ := strings.Cut(at, "/")
		claim := scoped(fmt.Sprint("c", len(got)), endpoint, network, location)
		preview, err := n.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim, DryRun: true})
		answer := n.create(claim)
		if err != nil || preview.Status.AllocatedCIDR != answer.Status.AllocatedCIDR || preview.Status.PoolRef.Name != answer.Status.PoolRef.Name {
			t.Errorf("%s: the dry run is answered %+v, %v, and the CREATE %+v; want the same", at, preview.Status, err, answer.Status)
		}
		n.stored(claim, answer)
		n.reconcile(claim.Name)
		record := gen.Allocation(claim.Name, "", "")
		testbed.Read(t, n.tenant.Client, record)
		if record.Spec.PoolRef != *answer.Status.PoolRef || !strings.Contains(record.Spec.PoolRef.Name, network) {
			t.Errorf("%s: the record is of pool %+v, want that of the answer, of the network", at, record.Spec.PoolRef)
		}
		got = append(got, answer.Status.AllocatedCIDR)
	}
	want := []string{"2001:db8::1:0:0/96", "2001:db8::1:0:0/96", "2001:db8::2:0:0/96", "2001:db8:0:1:0:1::/96", "2001:db8:0:1:0:1::/96"}
	if !slices.Equal(got, want) {
		t.Errorf("answered with %v, want %v", got, want)
	}
	if networks := n.derived(vpc); !slices.Equal(networks, []string{"2001:db8::/48", "2001:db8::/48"}) {
		t.Errorf("made the networks %v, want the same /48 for both", networks)
	}
	if spaces := len(n.ledger.Derived().Spaces("uid-of-root")); spaces != 2 {
		t.Errorf("the root pool has %d address spaces, want one for each network", spaces)
	}
}

// Two workspaces have a network of the same name. If each workspace has its own pools, each gets a pool in an address
// space of its own. If all workspaces share pools, both get the same pool.
func TestOverlapping_SharesANetworkOnlyIfTenancyIsAllProjects(t *testing.T) {
	t.Parallel()
	for tenancy, spaces := range map[string]int{ipamv1alpha1.RoleProject: 2, ipamv1alpha1.RoleAllProjects: 1} {
		t.Run(tenancy, func(t *testing.T) {
			t.Parallel()
			n := newOverlapping(t, "2001:db8::/32", tenancy)
			first, err := n.answered("tenant", scoped("c", endpoint, "net", "ams"))
			second, err2 := n.answered("platform", scoped("c", endpoint, "net", "ams"))
			if err := errors.Join(err, err2); err != nil || first.Status.AllocatedCIDR == "" {
				t.Fatalf("answered %+v and %+v, %v", first.Status, second.Status, err)
			}
			if same := first.Status.AllocatedCIDR == second.Status.AllocatedCIDR; same != (spaces == 2) {
				t.Errorf("answered with %s and %s, in %d networks", first.Status.AllocatedCIDR, second.Status.AllocatedCIDR, spaces)
			}
			if made := len(n.ledger.Derived().Spaces("uid-of-root")); made != spaces || len(n.derived(vpc)) != spaces {
				t.Errorf("made %d address spaces, and the networks %v; want %d", made, n.derived(vpc), spaces)
			}
		})
	}
}

// Many concurrent CREATEs in two new networks all get blocks of the one pool of their network.
func TestOverlapping_ServesManyAtOnce(t *testing.T) {
	t.Parallel()
	n := newOverlapping(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	const many = 10
	var got [2][many]string
	var wg sync.WaitGroup
	for i := range 2 * many {
		wg.Go(func() {
			network := i % 2
			answer, err := n.answered("tenant", scoped(fmt.Sprint("c", i), endpoint, fmt.Sprint("net", network), "ams"))
			if err != nil {
				t.Errorf("claim %d: %v", i, err)
			}
			got[network][i/2] = answer.Status.AllocatedCIDR
		})
	}
	wg.Wait()
	for network := range got {
		if slices.Sort(got[network][:]); len(slices.Compact(slices.Clone(got[network][:]))) != many || got[network] != got[0] {
			t.Errorf("network %d is answered with %v, want %d blocks, as the other one: %v", network, got[network], many, got[0])
		}
	}
	if networks := n.derived(vpc); !slices.Equal(networks, []string{"2001:db8::/48", "2001:db8::/48"}) {
		t.Errorf("made the networks %v, want one /48 for each", networks)
	}
}

// A claim for the range of a network gets the CIDR that it asks for, even if another network has the same CIDR. If the
// network has another CIDR already, the claim is refused, and the refusal names the CIDR of the network.
func TestOverlapping_GivesTwoRangesTheSameCIDR(t *testing.T) {
	t.Parallel()
	n := newOverlapping(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	asked := func(name, network, address string) door.Answer {
		claim := ranged(scoped(name, vpc, network, ""))
		claim.Spec.Address = address
		return n.create(claim)
	}
	for _, network := range []string{"red", "blue"} {
		if got := asked("v-"+network, network, "2001:db8:7::/48").Status.AllocatedCIDR; got != "2001:db8:7::/48" {
			t.Errorf("network %s holds %s, want what it asks for", network, got)
		}
	}
	answer := asked("again", "red", "2001:db8:8::/48")
	if reason, message := reasonOf(answer); reason != ipamv1alpha1.ReasonRangeExists || !strings.Contains(message, "2001:db8:7::/48") {
		t.Errorf("another range of the network is answered %s: %s; want that it is 2001:db8:7::/48", reason, message)
	}
}

// A flat class of the same root pool is unique within networks, too. In each network it gives no addresses that the
// pools of this network have.
func TestOverlapping_SharesTheNetworkWithAFlatClass(t *testing.T) {
	t.Parallel()
	flat := gen.Class("flat", gen.Family(ipamv1alpha1.IPv6), gen.DefaultLength(48), gen.UniqueWithin("network"))
	n := newOverlapping(t, "2001:db8::/32", ipamv1alpha1.RoleProject, flat)
	must.Do(t, n.platform.Client.Patch(t.Context(), gen.Pool("root"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"classNames":["vpc","flat"]}}`))))
	n.create(scoped("c", endpoint, "red", "ams"))
	for network, want := range map[string]string{"red": "2001:db8:1::/48", "blue": "2001:db8::/48"} {
		if got := n.create(scoped("f-"+network, "flat", network, "")).Status.AllocatedCIDR; got != want {
			t.Errorf("a block of network %s is %s, want %s", network, got, want)
		}
	}
}

// A class whose uniqueWithin has changed does not use the networks that it made before, which lie in another address
// space: claims in them are refused. A claim in a new network is refused, too, because the root pool still has the
// earlier blocks.
func TestOverlapping_RefusesNetworksOfOtherRoles(t *testing.T) {
	t.Parallel()
	for name, roles := range map[string][2]string{"for all first": {`[]`, `["network"]`}, "in each network first": {`["network"]`, `[]`}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
			n.uniqueWithin(vpc, roles[0])
			n.create(scoped("c", endpoint, "red", "ams"))
			n.uniqueWithin(vpc, roles[1])
			if reason, message := reasonOf(n.create(scoped("d", subnet, "red", "ams"))); reason != ipamv1alpha1.ReasonChainBroken || !strings.Contains(message, "unique within other roles") {
				t.Errorf("a claim in the network is answered %s: %s; want that its pool is of a former class", reason, message)
			}
			if reason, message := reasonOf(n.create(scoped("e", endpoint, "blue", "ams"))); reason != ipamv1alpha1.ReasonPoolExhausted || !strings.Contains(message, "uniqueWithin") {
				t.Errorf("a claim in a new network is answered %s: %s; want that the root pool has blocks from before", reason, message)
			}
		})
	}
}

// An address space goes when the last pool in it was retired. The address space of a network that a claim holds stays.
func TestOverlapping_DropsAnEmptyAddressSpace(t *testing.T) {
	t.Parallel()
	n := newOverlapping(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	claim := scoped("c", subnet, "red", "ams")
	answer := n.create(claim)
	n.stored(claim, answer)
	n.reconcile(claim.Name)
	n.create(ranged(scoped("v", vpc, "blue", "")))
	must.Do(t, n.ledger.Release(t.Context(), ledger.ClaimID(id(answer))))
	for _, below := range n.ledger.Derived().Below("uid-of-root") {
		if ledger.IsDerived(below.ID) && below.Derived.Holder.Claim == "" && below.Derived.Scope["network"].Name == "red" {
			must.Do(t, n.ledger.Pools().Retire(t.Context(), below.ID))
		}
	}
	spaces := func() int { return len(n.ledger.Derived().Spaces("uid-of-root")) }
	must.Do(t, poll.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		return spaces() == 1, nil // it goes after its last block
	}))
	if spaces() != 1 || len(n.derived(vpc)) != 1 || !n.ledger.Pools().InUse("uid-of-root") {
		t.Errorf("the root pool has %d address spaces, and the networks %v; want that one is left, which is in use", spaces(), n.derived(vpc))
	}
}
