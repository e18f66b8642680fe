package recover

import (
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The class of a claim without IPAllocation is deleted. Only blocks and ranges that no other workspace can claim are
// adopted: those of a pool, or a network, of the claim's own workspace. The claim gets nothing from pools that serve
// other workspaces, too, because only the class says which workspaces these pools admit.
func TestPass_AdoptsClaimsOfADeletedClassOnlyInPoolsOfTheirWorkspace(t *testing.T) {
	network := ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}}
	for name, tt := range map[string]struct {
		pool, cidr string
		class      string
		elsewhere  bool // the pool is the platform's
		network    string
		target     ipamv1alpha1.ClaimTarget
		want       string
	}{
		"own pool":                              {pool: "own", cidr: "10.7.0.0/28", class: "gone", want: "10.7.0.0/28 bound"},
		"own network":                           {pool: "net-own", cidr: "10.0.5.16/28", class: "gone", network: "a", want: "10.0.5.16/28 bound"},
		"own network, of another scope":         {pool: "net-own", cidr: "10.0.5.16/28", class: "gone", network: "b"},
		"range of the own network":              {pool: "net-own", cidr: "10.0.5.0/24", class: "net", network: "a", target: ipamv1alpha1.TargetScopeRange, want: "held"},
		"range of the own network, other class": {pool: "net-own", cidr: "10.0.5.0/24", class: "gone", network: "a", target: ipamv1alpha1.TargetScopeRange},
		"network of all workspaces":             {pool: "net-a", cidr: "10.0.3.16/28", class: "gone", elsewhere: true, network: "a"},
		"range of all workspaces":               {pool: "net-a", cidr: "10.0.3.0/24", class: "net", elsewhere: true, network: "a", target: ipamv1alpha1.TargetScopeRange},
		"platform's pool":                       {pool: "open", cidr: "10.1.0.0/28", class: "gone", elsewhere: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t, gen.Class("of-others"))
			l.binds("w", "root:w")
			root := l.had(gen.Pool("root"), "10.0.0.0/16", "another", 9)
			l.had(gen.Pool("open", gen.Visible(ipamv1alpha1.VisibilityPlatform)), "10.1.0.0/16", "another", 9)
			l.had(in("w", gen.Pool("own")), "10.7.0.0/16", "another", 9)
			l.network("a", "10.0.3.0/24")
			own, _ := l.network("own", "10.0.5.0/24")
			in("w", own)
			id := ledger.DerivedID("net", "w", ledger.Scope{"network": {Kind: "Network", Name: "a"}})
			own.Spec.Scope, own.Status.ScopeDigest = network, ledger.Digest(id)
			own.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:ipam"}
			claim := l.shows("c", "w", tt.pool, tt.cidr, l.now.Now())
			claim.Status.ClassName, claim.Spec.Target = tt.class, tt.target
			if tt.network != "" {
				claim.Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: tt.network}}
			}
			if !tt.elsewhere {
				claim.Status.PoolRef.ProjectRef = nil
			}
			l.whole(root)
			must.Do(t, l.pass(t.Context()))
			got := l.blocks()["uid-of-c"]
			if held, ok := l.ledger.Derived().Held("uid-of-c"); ok && held.ID == id {
				got = "held"
			}
			if got != tt.want {
				t.Errorf("the claim has %q, want %q", got, tt.want)
			}
		})
	}
}
