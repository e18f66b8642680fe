package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// The first claim in a network and location makes the pools of both. When it is answered, the IPPool of the location
// exists, and that of the network is announced. The claim's record has no scope, because its block is unique in its
// pool.
func TestChain_IsMadeByTheFirstClaim(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	claim := scoped("c", endpoint, "net", "ams")
	answer := n.create(claim)
	if got := answer.Status.AllocatedCIDR; got != "2001:db8::1:0:0/96" {
		t.Errorf("answered with %s (%v), want 2001:db8::1:0:0/96, as the first /96 is reserved", got, answer.Status.Conditions)
	}
	if diff := [2][]string{n.derived(vpc), n.derived(subnet)}; !slices.Equal(diff[0], []string{"2001:db8::/48"}) || !slices.Equal(diff[1], []string{"2001:db8::/64"}) {
		t.Errorf("made %v, want a /48 and a /64", diff)
	}
	if published, announced := []string{"2001:db8::/64"}, []string{"2001:db8::/48"}; !slices.Equal(n.published, published) || !slices.Equal(n.announced, announced) {
		t.Errorf("published %v and announced %v, want %v and %v", n.published, n.announced, published, announced)
	}
	ref := answer.Status.PoolRef
	if ref == nil || ref.ProjectRef != nil || !strings.HasPrefix(ref.Name, "subnet-tenant-ams-net-") {
		t.Fatalf("poolRef is %+v, want that of the /64 in the workspace of the claim", ref)
	}
	if err := n.tenant.Client.Get(t.Context(), client.ObjectKey{Name: ref.Name}, &ipamv1alpha1.IPPool{}); err != nil {
		t.Errorf("the pool of the answer: %v", err)
	}
	if answer.Status.ClassName != endpoint || answer.Status.Requested != "/96" || answer.Status.BoundAllocationRef == nil {
		t.Errorf("answered %+v, want the class, the length and the record of a block", answer.Status)
	}
	n.stored(claim, answer)
	n.reconcile("c")
	if block, ok, err := n.ledger.Lookup(t.Context(), ledger.ClaimID(id(answer))); err != nil || !ok || block.Prefix.String() != answer.Status.AllocatedCIDR {
		t.Errorf("the ledger has %+v, %t, %v; want %s", block, ok, err, answer.Status.AllocatedCIDR)
	}
	record := gen.Allocation("c", "", "")
	testbed.Read(t, n.tenant.Client, record)
	if record.Spec.PoolRef != *ref || record.Spec.Purpose != ipamv1alpha1.PurposeClaim || len(record.Spec.Scope) > 0 || record.Status.ScopeDigest != "" {
		t.Errorf("the record is %+v, want that of a block that is unique in its pool", record)
	}
}

// A leader whose ledger was not compared yet makes the pools of a network after it has compared the root pool.
func TestChain_IsMadeOnceTheLedgerIsCompared(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.New(t).Client()
	n := newNetworksIn(t, etcd, "2001:db8::/32", ipamv1alpha1.RoleProject)
	queue := n.Queue
	n.start(testbed.Ledger(t, etcd, allocator.Options{Frozen: true}))
	n.Ranges, n.Queue = n, queue
	n.Compare = func(_ context.Context, id ledger.PoolID) (bool, error) {
		n.ledger.Recovery().Trust(id)
		return true, nil
	}
	if answer := n.create(scoped("c", endpoint, "net", "ams")); answer.Status.AllocatedCIDR != "2001:db8::1:0:0/96" {
		t.Errorf("answered %+v by a ledger that is whole, want 2001:db8::1:0:0/96", answer)
	}
}

// In a network and location whose pools exist, a claim costs one transaction, as it does without a network. It
// publishes nothing.
func TestChain_BindsByOneTransactionOnceItsPoolsExist(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	revision := func(name string) int64 {
		claim := scoped(name, endpoint, "net", "ams")
		block, _, err := n.ledger.Lookup(t.Context(), ledger.ClaimID(id(n.create(claim))))
		must.Do(t, err)
		return block.Revision
	}
	first, published := revision("c"), len(n.published)
	if spent := revision("d") - first; spent != 1 || len(n.published) != published {
		t.Errorf("a claim in a known network took %d revisions and published %d pools, want 1 and none", spent, len(n.published)-published)
	}
}

// Many concurrent CREATEs in a new network and location all get blocks of one pool.
func TestChain_ServesManyAtOnce(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	const many = 10
	got := make([]string, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			answer, err := n.answered("tenant", scoped(fmt.Sprintf("c%d", i), endpoint, "net", "ams"))
			if err != nil {
				t.Errorf("claim %d: %v", i, err)
			}
			got[i] = answer.Status.AllocatedCIDR
		})
	}
	wg.Wait()
	networks, locations := n.derived(vpc), n.derived(subnet)
	if len(networks) != 1 || len(locations) != 1 || !within(locations[0], networks[0]) {
		t.Fatalf("made %v and %v, want one /48, and one /64 in it", networks, locations)
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != many || slices.ContainsFunc(got, func(cidr string) bool { return !within(cidr, locations[0]) }) {
		t.Errorf("answered with %v, want %d blocks of %s", got, many, locations[0])
	}
}

// Three concurrent CREATEs for the range of a network, the range of a location in it, and an endpoint there get CIDRs
// that lie in one another, whichever CREATE makes the pools.
func TestChain_NestsRangesAndAnEndpointMadeAtOnce(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	for i := range 40 {
		network := fmt.Sprintf("net%d", i)
		var held, inside, location door.Answer
		var errs [3]error
		var wg sync.WaitGroup
		wg.Go(func() { held, errs[0] = n.answered("tenant", ranged(scoped("v-"+network, vpc, network, ""))) })
		wg.Go(func() { inside, errs[1] = n.answered("tenant", scoped("e-"+network, endpoint, network, "ams")) })
		wg.Go(func() { location, errs[2] = n.answered("tenant", ranged(scoped("l-"+network, subnet, network, "ams"))) })
		wg.Wait()
		if err := errors.Join(errs[:]...); err != nil || !within(inside.Status.AllocatedCIDR, location.Status.AllocatedCIDR) ||
			!within(location.Status.AllocatedCIDR, held.Status.AllocatedCIDR) {
			t.Fatalf("the network is answered with %s, its location with %s, the endpoint with %s, %v; want each inside of the one before",
				held.Status.AllocatedCIDR, location.Status.AllocatedCIDR, inside.Status.AllocatedCIDR, err)
		}
		for _, answer := range []door.Answer{held, inside, location} { // 64 claims of a workspace may be unseen
			n.Answers.Stored(ledger.Holder{Cluster: "tenant", Claim: ledger.ClaimID(id(answer))})
		}
	}
}

// Two workspaces have a network of the same name. If each workspace has its own pools, each gets a pool. If all
// workspaces share pools, both get the same pool.
func TestChain_SharesPoolsByTenancy(t *testing.T) {
	t.Parallel()
	for tenancy, pools := range map[string]int{ipamv1alpha1.RoleProject: 2, ipamv1alpha1.RoleAllProjects: 1} {
		t.Run(tenancy, func(t *testing.T) {
			t.Parallel()
			n := newNetworks(t, "2001:db8::/32", tenancy)
			first, err := n.answered("tenant", scoped("c", endpoint, "net", "ams"))
			second, err2 := n.answered("platform", scoped("c", endpoint, "net", "ams"))
			if err := errors.Join(err, err2); err != nil || first.Status.AllocatedCIDR == "" || second.Status.AllocatedCIDR == "" {
				t.Fatalf("answered %+v and %+v, %v", first.Status, second.Status, err)
			}
			if got := n.derived(vpc); len(got) != pools {
				t.Errorf("made %v, want %d pools", got, pools)
			}
			if ref := first.Status.PoolRef; (ref.ProjectRef != nil) != (pools == 1) || ref.ProjectRef != nil && ref.ProjectRef.Name != "root:ipam" {
				t.Errorf("poolRef is %+v, want a projectRef to the platform if the pool is there", ref)
			}
		})
	}
}

// Two scopes can be chosen so that their pools have the same name, with the same eight digits of their digests. The
// second pool is named by its whole digest, because its IPPool could not be made otherwise. The same holds for a pool
// of the platform's own claims whose name a tenant has taken.
func TestChain_NamesAPoolByItsDigestIfTheNameIsTaken(t *testing.T) {
	t.Parallel()
	for tenancy, whose := range map[string]struct{ workspace, claims ledger.ClusterName }{
		ipamv1alpha1.RoleAllProjects: {claims: "tenant"}, ipamv1alpha1.RoleProject: {workspace: "platform", claims: "platform"},
	} {
		n := newNetworks(t, "2001:db8::/32", tenancy)
		id := ledger.DerivedID(vpc, whose.workspace, ledger.Scope{"network": {APIGroup: "networking.example.com", Kind: "Network", Name: "net"}})
		named := vpc + "-net-"
		if whose.workspace != "" {
			named = vpc + "-ipam-net-"
		}
		taken := named + ledger.Digest(id)[:8]
		_, err := n.ledger.Derived().Provision(t.Context(), ledger.Request{Pool: "uid-of-root", Length: 48}, ledger.Pool{
			Cluster: "platform", Name: taken, Derived: &ledger.Derived{Class: vpc, Scope: ledger.Scope{"network": {Kind: "Chosen", Name: "net"}}},
		}, nil)
		if err != nil {
			t.Fatalf("%s: Provision of the pool that has the name: %v", tenancy, err)
		}
		if answer, err := n.answered(whose.claims, scoped("c", endpoint, "net", "ams")); err != nil || answer.Status.AllocatedCIDR == "" {
			t.Fatalf("%s: answered %+v, %v", tenancy, answer.Status, err)
		}
		if p, _ := n.ledger.Pools().Get(id); p.Name != named+ledger.Digest(id) {
			t.Errorf("%s: the pool is named %q, want its whole digest, as there is another %s", tenancy, p.Name, taken)
		}
	}
}

// If the root pool is full, the refusal names it. If a pool of the chain is full, the refusal names only its class.
func TestChain_NamesTheFullRoot(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/48", ipamv1alpha1.RoleProject)
	n.create(scoped("c", endpoint, "net", "ams"))
	answer := n.create(scoped("d", endpoint, "other", "ams"))
	if reason, message := reasonOf(answer); reason != ipamv1alpha1.ReasonPoolExhausted || answer.Pool != "root" || !answer.Refuse || !strings.Contains(message, `"vpc"`) {
		t.Errorf("answered %s: %s of pool %q; want PoolExhausted of the root, by class vpc", reason, message, answer.Pool)
	}
	for length := 49; length <= 64; length++ { // the rest of the /48 beside its first /64
		holder := ledger.Holder{Claim: ledger.ClaimID(fmt.Sprint(length)), Cluster: "tenant", Namespace: "default", Name: "x"}
		must.Get(n.ledger.Bind(t.Context(), ledger.Request{Pool: n.made(vpc).ID, Length: length, Holder: holder}))(t)
	}
	answer = n.create(scoped("e", endpoint, "net", "fra"))
	if reason, message := reasonOf(answer); reason != ipamv1alpha1.ReasonPoolExhausted || answer.Pool != "" || !strings.Contains(message, `"subnet"`) {
		t.Errorf("answered %s: %s of pool %q; want PoolExhausted of no pool, by class subnet", reason, message, answer.Pool)
	}
}

// made returns the only pool of a class.
func (n *networks) made(class string) ledger.Pool {
	n.Helper()
	for p := range n.ledger.Derived().All() {
		if p.Derived.Class == class {
			return p
		}
	}
	n.Fatalf("there is no pool of class %s", class)
	return ledger.Pool{}
}

// A dry run gets the same answer as the CREATE after it, and makes nothing.
func TestChain_DryRunMakesNothing(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
	for _, claim := range []*ipamv1alpha1.IPClaim{
		scoped("c", endpoint, "net", "ams"), ranged(scoped("l", subnet, "net", "fra")), ranged(scoped("v", vpc, "other", "")), scoped("d", endpoint, "net", "ams"),
		ranged(scoped("w", vpc, "net", "")), // which is there, and nobody holds it
	} {
		before, published := testbed.Blocks(t, n.ledger), len(n.published)
		preview, err := n.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim, DryRun: true})
		if after := testbed.Blocks(t, n.ledger); err != nil || !slices.Equal(before, after) || len(n.published) != published {
			t.Fatalf("%s: %v, and the ledger has %v, and had %v; want an answer, and nothing new", claim.Name, err, after, before)
		}
		real := n.create(claim)
		got, want := preview.Status, real.Status
		if got.AllocatedCIDR == "" || got.AllocatedCIDR != want.AllocatedCIDR || got.PoolRef.Name != want.PoolRef.Name || got.Requested != want.Requested {
			t.Errorf("%s: the dry run is answered %s of %s (%s), and the CREATE %s of %s (%s)", claim.Name,
				got.AllocatedCIDR, got.PoolRef.Name, got.Requested, want.AllocatedCIDR, want.PoolRef.Name, want.Requested)
		}
		for _, condition := range got.Conditions {
			if condition.LastTransitionTime.IsZero() {
				t.Errorf("%s: condition %s of the dry run has no time; kcp refuses that", claim.Name, condition.Type)
			}
		}
	}
}

// A dry run asks for an address that the pool would not contain, or would exclude, once it is made. The dry run is
// refused as the CREATE is.
func TestChain_DryRunIsRefusedAsTheCreateIs(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]ipamv1alpha1.Reason{
		"2001:db8:9::1": ipamv1alpha1.ReasonAddressOutOfRange, "2001:db8::1": ipamv1alpha1.ReasonAddressReserved,
	} {
		n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject)
		claim := scoped("c", endpoint, "net", "ams")
		claim.Spec.Address = address
		preview, err := n.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim, DryRun: true})
		previewed, message := reasonOf(preview)
		answer, realErr := n.answered("tenant", claim)
		if reason, said := reasonOf(answer); reason != want || previewed != reason || message != said {
			t.Errorf("%s: the dry run is answered %s: %s (%v), and the CREATE %s: %s (%v); want %s, twice the same",
				address, previewed, message, err, reason, said, realErr, want)
		}
	}
}
