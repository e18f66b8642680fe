package claim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// combination is a chain of classes, with one value of each field that decides where a claim gets its block.
type combination struct {
	levels  int    // classes with poolPer above the class of the claims
	tenancy string // of their pools
	unique  string // uniqueWithin of the class of the claims: roles, separated by blanks
	own     bool   // the root pool is the tenant's
	hidden  bool   // no workspace may use the classes above, and only listed workspaces the class of the claims
	exact   bool   // each claim says its length
}

func (c combination) String() string {
	owner := "platform"
	if c.own {
		owner = "tenant"
	}
	return fmt.Sprintf("%d levels for %s, unique within %q, from the %s, hidden %t, exact %t", c.levels, c.tenancy, c.unique, owner, c.hidden, c.exact)
}

// combinations returns all combinations. hidden and exact always have the same value, because nothing depends on the
// two together.
func combinations() (all []combination) {
	for levels := range 3 {
		for _, tenancy := range []string{ipamv1alpha1.RoleProject, ipamv1alpha1.RoleAllProjects} {
			for _, unique := range []string{"", "vrf", "network", "network vrf"} {
				for bits := range 4 {
					c := combination{levels: levels, tenancy: tenancy, unique: unique, own: bits&1 > 0, hidden: bits&2 > 0, exact: bits&2 > 0}
					if levels > 0 || tenancy == ipamv1alpha1.RoleProject {
						all = append(all, c)
					}
				}
			}
		}
	}
	return all
}

// The network, location and vrf of each claim. The last claim has the scope of the first.
var scopes = [][3]string{{"red", "ams", "x"}, {"red", "ams", "y"}, {"red", "fra", "x"}, {"blue", "ams", "x"}, {"red", "ams", "x"}}

// roles returns the roles that a pool has at a level of the chain. Level 0 is the root, which has none.
func (c combination) roles(level int) []string { return []string{"network", "location"}[:level] }

// classes returns the class of the claims, after the classes above it.
func (c combination) classes() (objects []client.Object) {
	sees := gen.Visible(ipamv1alpha1.VisibilityPlatform)
	if c.hidden {
		sees = gen.Visible(ipamv1alpha1.VisibilityConsumer)
	}
	above := []gen.ClassOption{sees}
	for level := range c.levels {
		options := append(slices.Clone(above), gen.DefaultLength(int32(12+4*level)), gen.PoolPer(append(c.roles(level+1), c.tenancy)...))
		name := fmt.Sprintf("level-%d", level)
		objects = append(objects, gen.Class(name, options...))
		above = []gen.ClassOption{sees, gen.Below(name)}
	}
	leaf := gen.Class("leaf", append(above, gen.Lengths{Min: 24, Max: 30}, gen.DefaultLength(28), gen.UniqueWithin(strings.Fields(c.unique)...))...)
	if c.hidden {
		leaf.Spec.Visibility, leaf.Spec.Consumers = ipamv1alpha1.VisibilityShared, []ipamv1alpha1.Consumer{"root:tenant"}
	}
	return append(objects, leaf)
}

// scene returns networks in which the classes and the root pool of the combination are offered.
func (c combination) scene(t *testing.T) *networks {
	t.Helper()
	classes := c.classes()
	n := newNetworks(t, "2001:db8::/32", ipamv1alpha1.RoleProject, classes...)
	pool, in, at := readyPool("top", "10.0.0.0/8", gen.Backs(classes[0].GetName()), gen.Visible(ipamv1alpha1.VisibilityPlatform)), ledger.ClusterName("platform"), n.platform
	if c.own {
		in, at = "tenant", n.tenant
	}
	must.Do(t, at.Client.Create(t.Context(), pool))
	must.Get(n.ledger.Pools().Register(t.Context(), ledger.Pool{ID: ledger.PoolID(pool.UID), Cluster: in, Name: pool.Name, CIDR: netip.MustParsePrefix("10.0.0.0/8")}))(t)
	return n
}

// serves reports whether claims of a workspace are served.
func (c combination) serves(workspace string) bool {
	if c.own && (workspace != "tenant" || c.levels > 0 && c.tenancy == ipamv1alpha1.RoleAllProjects) {
		return false // no workspace lends its pools to others
	}
	return true
}

// key names the pool from which a claim gets its block, and the address space in this pool.
func (c combination) key(workspace string, scope [3]string) (pool, space string) {
	value := map[string]string{"network": scope[0], "location": scope[1], "vrf": scope[2]}
	if c.levels > 0 && c.tenancy == ipamv1alpha1.RoleProject {
		pool = workspace
	}
	for _, role := range c.roles(c.levels) {
		pool += " " + value[role]
	}
	for role := range strings.FieldsSeq(c.unique) {
		space += " " + value[role]
	}
	if c.unique != "" {
		space += " " + workspace
	}
	return pool, space
}

// In each combination the claims of two workspaces get the blocks that the fields of the classes promise. Within an
// address space the blocks follow one after the other. Another address space has the same blocks again.
func TestCombinations_GiveThePromisedBlocks(t *testing.T) {
	t.Parallel()
	for _, c := range combinations() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			n := c.scene(t)
			pools, given := map[string]string{}, map[string]int{}
			for _, workspace := range []string{"tenant", "platform"} {
				for i, scope := range scopes {
					claim := gen.Claim(fmt.Sprintf("c%d", i), gen.OfClass("leaf"), gen.Within("network", scope[0], "location", scope[1], "vrf", scope[2]))
					if c.exact {
						claim.Spec.PrefixLength = 28
					}
					name := fmt.Sprintf("claim %d of %s", i, workspace)
					preview, err := n.Answer(t.Context(), door.Request{Cluster: ledger.ClusterName(workspace), Claim: claim, DryRun: true})
					answer := must.Get(n.answered(ledger.ClusterName(workspace), claim))(t)
					got := answer.Status.AllocatedCIDR
					if err != nil || preview.Status.AllocatedCIDR != got {
						t.Errorf("%s: the dry run is answered %s, %v, and the CREATE %s; want the same", name, preview.Status.AllocatedCIDR, err, got)
					}
					if !c.serves(workspace) {
						if reason, message := reasonOf(answer); got != "" || reason != ipamv1alpha1.ReasonNoOfferingPool {
							t.Errorf("%s is answered %s, %s: %s; want %s", name, got, reason, message, ipamv1alpha1.ReasonNoOfferingPool)
						}
						continue
					}
					reason, message := reasonOf(answer)
					if got == "" {
						t.Fatalf("%s is refused: %s: %s", name, reason, message)
					}
					key, space := c.key(workspace, scope)
					if pools[key] == "" {
						pools[key] = got[:strings.LastIndex(got, ".")]
					}
					if want := fmt.Sprintf("%s.%d/28", pools[key], 16*given[key+"|"+space]); got != want {
						t.Errorf("%s got %s, want %s", name, got, want)
					}
					given[key+"|"+space]++
					if workspace == "tenant" {
						n.stored(claim, answer)
						c.settled(n, claim, got)
					}
				}
			}
			if apart := slices.Sorted(maps.Values(pools)); len(slices.Compact(apart)) != len(pools) {
				t.Errorf("the pools are %v, want each at a place of its own", pools)
			}
		})
	}
}

// settled fails the test unless the reconcile keeps the answered block, and the record shows the roles within which the
// block is unique.
func (c combination) settled(n *networks, claim *ipamv1alpha1.IPClaim, cidr string) {
	n.Helper()
	if now := n.reconcile(claim.Name); now.Status.Phase != ipamv1alpha1.ClaimBound || now.Status.AllocatedCIDR != cidr {
		n.Errorf("%s is %s with %s, want it Bound with %s", claim.Name, now.Status.Phase, now.Status.AllocatedCIDR, cidr)
	}
	record := gen.Allocation(claim.Name, "", "")
	testbed.Read(n, n.tenant.Client, record)
	if roles := slices.Sorted(maps.Keys(record.Spec.Scope)); !slices.Equal(roles, strings.Fields(c.unique)) {
		n.Errorf("the record of %s has the roles %v, want %q", claim.Name, roles, c.unique)
	}
}

// In each combination with pools for scopes, a claim holds the pool of its scope, and a claim by the class below gets
// its block in that pool.
func TestCombinations_GiveThePromisedRanges(t *testing.T) {
	t.Parallel()
	for _, c := range combinations() {
		if c.levels == 0 || c.hidden || c.exact {
			continue // there is no range, or no claim could hold it
		}
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			n := c.scene(t)
			class := fmt.Sprintf("level-%d", c.levels-1)
			scope := gen.Within("network", "red", "location", "ams", "vrf", "x")
			held := ranged(gen.Claim("range", gen.OfClass(class), scope))
			answer := n.create(held)
			if !c.serves("tenant") {
				if reason, message := reasonOf(answer); reason != ipamv1alpha1.ReasonNoOfferingPool {
					t.Errorf("answered %s: %s; want %s", reason, message, ipamv1alpha1.ReasonNoOfferingPool)
				}
				return
			}
			cidr := answer.Status.AllocatedCIDR
			if _, message := reasonOf(answer); cidr != fmt.Sprintf("10.0.0.0/%d", 8+4*c.levels) {
				t.Fatalf("answered %s (%s), want 10.0.0.0/%d", cidr, message, 8+4*c.levels)
			}
			n.stored(held, answer)
			n.reconcile("range")
			inside := n.create(gen.Claim("c", gen.OfClass("leaf"), scope)).Status
			if inside.AllocatedCIDR != "10.0.0.0/28" || inside.PoolRef.Name != answer.Status.PoolRef.Name {
				t.Errorf("a claim inside is answered %+v, want 10.0.0.0/28 of %s", inside, answer.Status.PoolRef.Name)
			}
		})
	}
}
