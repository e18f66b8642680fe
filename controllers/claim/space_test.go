package claim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A pool of a class that is unique within networks gives the same addresses in each network. A dry run gets the same
// answers, and the record has the scope.
func TestSpace_RepeatsAddressesInEachNetwork(t *testing.T) {
	t.Parallel()
	flat := gen.Class("overlay", gen.DefaultLength(28), gen.UniqueWithin("network"))
	overlay := readyPool("overlay-pool", "10.0.0.0/24", gen.Backs("overlay"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject, flat, overlay)
	var got []string
	for _, claim := range []*ipamv1alpha1.IPClaim{scoped("a", "overlay", "red", ""), scoped("b", "overlay", "blue", ""), scoped("c", "overlay", "red", "")} {
		preview, err := n.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim, DryRun: true})
		answer := n.create(claim)
		if err != nil || preview.Status.AllocatedCIDR != answer.Status.AllocatedCIDR || answer.Status.PoolRef.Name != "overlay-pool" {
			t.Errorf("%s: the dry run is answered %+v, %v, and the CREATE %+v; want the same, of overlay-pool", claim.Name, preview.Status, err, answer.Status)
		}
		n.stored(claim, answer)
		n.reconcile(claim.Name)
		got = append(got, answer.Status.AllocatedCIDR)
	}
	other, err := n.answered("platform", scoped("a", "overlay", "red", ""))
	if got = append(got, other.Status.AllocatedCIDR); err != nil || !slices.Equal(got, []string{"10.0.0.0/28", "10.0.0.0/28", "10.0.0.16/28", "10.0.0.0/28"}) {
		t.Errorf("two networks, the first of them again, and that of another workspace got %v, %v", got, err)
	}
	record := gen.Allocation("c", "", "")
	if err := n.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(record), record); err != nil || len(record.Spec.Scope) != 1 || record.Spec.Scope["network"].Name != "red" || len(record.Status.ScopeDigest) != 64 {
		t.Errorf("the record is %+v, %v; want its scope, and the digest of that", record, err)
	}
}

// The class of a pool changes between two kinds: one gives each address once, and the other once in each scope. The
// pool then serves no claim until its earlier blocks are released. A waiting claim is in no list of the ledger, and is
// requeued after a while.
func TestSpace_IsNotMixedWithBlocksForAll(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"first for all": false, "first in each scope": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flat, apart := gen.Class("flat", gen.DefaultLength(28)), gen.Class("apart", gen.DefaultLength(28))
			apart.Spec.UniqueWithin = []string{"network"}
			pool := readyPool("p", "10.0.0.0/24", gen.Backs("flat"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
			n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject, flat, apart, pool)
			backs := func(class string) *ipamv1alpha1.IPClaim {
				change := []byte(`{"spec":{"classNames":["` + class + `"]}}`)
				if err := n.platform.Client.Patch(t.Context(), pool.DeepCopy(), client.RawPatch(types.MergePatchType, change)); err != nil {
					t.Fatalf("change the class of the pool to %s: %v", class, err)
				}
				return scoped("by-"+class, class, "red", "")
			}
			classes := []string{"flat", "apart"}
			if first {
				slices.Reverse(classes)
			}
			held := backs(classes[0])
			n.stored(held, n.create(held))
			n.reconcile(held.Name)
			if reason, message := reasonOf(n.create(backs(classes[1]))); reason != ipamv1alpha1.ReasonPoolExhausted || !strings.Contains(message, "uniqueWithin") {
				t.Errorf("answered %s: %s; want that the pool has blocks from before", reason, message)
			}
			n.keep(scoped("w", classes[1], "red", ""))
			agenda, noted := noteLooks(n.scene), noteWaits(&n.Ledger)
			if now := n.reconcile("w"); now.Status.Phase != ipamv1alpha1.ClaimPending || len(noted.at) > 0 || !slices.Equal(agenda.later, []string{"w"}) {
				t.Errorf("a claim is %s, waits at %v, and of %v look again; want it Pending, in no list, as it would be woken without end or never, and to look again",
					now.Status.Phase, noted.at, agenda.later)
			}
		})
	}
}

// The class of a pool is made again, and is unique within other roles now. The pool serves no claim until its earlier
// blocks are released. Otherwise it could give an address of a network twice.
func TestSpace_IsNotMixedWithSpacesOfOtherRoles(t *testing.T) {
	t.Parallel()
	class := gen.Class("overlay", gen.DefaultLength(28), gen.UniqueWithin("network"))
	pool := readyPool("p", "10.0.0.0/24", gen.Backs("overlay"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject, class, pool)
	former := scoped("former", "overlay", "red", "ams")
	n.stored(former, n.create(former))
	n.reconcile("former")
	must.Do(t, n.platform.Client.Delete(t.Context(), class))
	must.Do(t, n.platform.Client.Create(t.Context(), gen.Class("overlay", gen.DefaultLength(28), gen.UniqueWithin("network", "location"))))
	answer := n.create(scoped("c", "overlay", "red", "ams"))
	if reason, message := reasonOf(answer); reason != ipamv1alpha1.ReasonPoolExhausted || !strings.Contains(message, "uniqueWithin") {
		t.Errorf("answered %s: %s (%s); want that the pool has blocks from before", reason, message, answer.Status.AllocatedCIDR)
	}
}

// A pool that overlaps another pool of its address domain can have no address spaces. Claims get blocks of the other
// pools of its class.
func TestSpace_PassesOverAPoolThatAnotherOverlaps(t *testing.T) {
	t.Parallel()
	apart := gen.Class("apart", gen.DefaultLength(28))
	apart.Spec.UniqueWithin = []string{"network"}
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject, apart)
	add := func(name string, cidr ipamv1alpha1.CIDR, space ledger.SpaceID) {
		pool := readyPool(name, cidr, gen.Backs("apart"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
		_, err := n.ledger.Pools().Register(t.Context(), ledger.Pool{
			ID: ledger.PoolID(pool.UID), Cluster: "platform", Name: name, CIDR: netip.MustParsePrefix(string(cidr)), Space: space,
		})
		if err = errors.Join(err, n.platform.Client.Create(t.Context(), pool)); err != nil {
			t.Fatal(err)
		}
	}
	domain := ledger.DomainSpace("platform", "d")
	add("a", "10.0.0.0/24", domain)
	add("b", "10.0.0.0/24", domain)
	if reason, message := reasonOf(n.create(scoped("c", "apart", "red", ""))); reason != ipamv1alpha1.ReasonPoolExhausted || !strings.Contains(message, "addressDomain") {
		t.Errorf("answered %s: %s; want that the pools overlap", reason, message)
	}
	add("z", "10.1.0.0/24", "")
	if got := n.create(scoped("d", "apart", "red", "")).Status; got.AllocatedCIDR != "10.1.0.0/28" {
		t.Errorf("answered %+v, want a block of the pool that overlaps none", got)
	}
}

// foreseen notes for each preview the pool that was asked.
type foreseen struct {
	views.Blocks
	of []ledger.PoolID
}

func (f *foreseen) Preview(ctx context.Context, r ledger.Request) (netip.Prefix, error) {
	f.of = append(f.of, r.Pool)
	return f.Blocks.Preview(ctx, r)
}

// There are more pools than a claim asks, and one has an address space for the network of the claim. Only that address
// space is previewed, and gives the block. To preview the other pools would take a transaction, which confirms that
// they have no address space. All workspaces share the one writer, and would wait for that transaction.
func TestSpace_ChoosesAmongManyPoolsFromMemory(t *testing.T) {
	t.Parallel()
	objects := []client.Object{gen.Class("overlay", gen.DefaultLength(28), gen.UniqueWithin("network"))}
	for i := range mostAsked + 5 {
		objects = append(objects, readyPool(fmt.Sprintf("p%03d", i), ipamv1alpha1.CIDR(fmt.Sprintf("10.0.%d.0/24", i)), gen.Backs("overlay"), gen.Visible(ipamv1alpha1.VisibilityPlatform)))
	}
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject, objects...)
	blocks := &foreseen{Blocks: n.Ledger.Blocks}
	n.Ledger.Blocks = blocks
	for _, name := range []string{"a", "b"} { // the first begins an address space, which has room for the second
		if got := n.create(scoped(name, "overlay", "red", "")).Status; got.PoolRef == nil || got.PoolRef.Name != "p000" {
			t.Errorf("answered %+v, want a block of the first pool", got)
		}
	}
	if len(blocks.of) != 1 || !ledger.IsAddressSpace(blocks.of[0]) {
		t.Errorf("asked for a block in advance of %d pools; want the only address space alone", len(blocks.of))
	}
}
