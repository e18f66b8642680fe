package address

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// Each state of an address has its own words, and the innermost pool gives the answer.
func TestUnheld_AnswersFromTheInnermostPool(t *testing.T) {
	counted := func(pool *ipamv1alpha1.IPPool, allocated string) ipamv1alpha1.IPPool {
		pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: allocated, Available: "0"}
		return *pool
	}
	pools := []ipamv1alpha1.IPPool{
		counted(stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), gen.Reserves(1, 1, 30), gen.Excludes("192.0.2.16/28")),
			"192.0.2.0/24", ipamv1alpha1.IPv4, 50, 25), "56"),
		counted(stage.Ready(gen.Pool("net", gen.CIDR("192.88.99.0/25"), gen.Gateway("192.88.99.1", 24)), "192.88.99.0/25", ipamv1alpha1.IPv4, 0, 26), "2"),
		counted(stage.Ready(gen.Pool("rack", gen.ChildOf("lab", 27)), "192.0.2.64/27", ipamv1alpha1.IPv4, 0, 27), "0"),
		counted(stage.Ready(gen.Pool("lent", gen.CIDR("198.51.100.0/24")), "198.51.100.0/24", ipamv1alpha1.IPv4, 0, 27), "16"),
	}
	for _, cooling := range []struct{ name, cidr, allocated string }{{"hot", "203.0.113.0/25", "16"}, {"lent-hot", "203.0.113.128/25", "48"}} {
		pool := counted(stage.Ready(gen.Pool(cooling.name, gen.CIDR(ipamv1alpha1.CIDR(cooling.cidr))), cooling.cidr, ipamv1alpha1.IPv4, 50, 25), cooling.allocated)
		pool.Status.Capacity.Cooling, pool.Status.NextRelease = "16", &metav1.Time{Time: stage.Noon}
		pools = append(pools, pool)
	}
	r := &session.View{Path: "root:team-a", Paths: map[string]string{}}
	for asked, want := range map[string][]string{
		"192.0.2.1":     {"192.0.2.1/32 is reserved in pool lab (192.0.2.0/24): spec.reservations of the pool covers 192.0.2.0/30"},
		"192.0.2.255":   {"192.0.2.255/32 is reserved in pool lab (192.0.2.0/24): spec.reservations of the pool covers 192.0.2.252/30"},
		"192.88.99.1":   {"192.88.99.1/32 is the gateway in pool net (192.88.99.0/25): 192.88.99.1 is never handed out"},
		"192.88.99.0":   {"192.88.99.0/32 is the network address in pool net (192.88.99.0/25): 192.88.99.0 is never handed out"},
		"192.88.99.127": {"192.88.99.127/32 is free in pool net (192.88.99.0/25)"},
		"192.0.2.16/30": {"192.0.2.16/30 is excluded in pool lab (192.0.2.0/24): spec.excludedCIDRs of the pool has 192.0.2.16/28"},
		"192.0.2.128":   {"192.0.2.128/32 is free in pool lab (192.0.2.0/24)"},
		"192.0.2.70":    {"192.0.2.70/32 is free in pool rack (192.0.2.64/27)"},
		"192.0.2.64/26": {
			"192.0.2.64/26 is allocated in pool lab (192.0.2.0/24): pool rack holds 192.0.2.64/27",
			"192.0.2.64/27 is free in pool rack (192.0.2.64/27)",
		},
		"198.51.100.7": {
			"198.51.100.7/32 is free, or allocated to another workspace, in pool lent (198.51.100.0/24): others hold 16 addresses of the pool, which are not shown to you",
		},
		"203.0.113.7": {
			"203.0.113.7/32 is free, or cooling, in pool hot (203.0.113.0/25): 16 addresses of the pool cool after their release, the next of them until 2026-03-01T12:00:00Z",
		},
		"203.0.113.135": {
			"203.0.113.135/32 is free, cooling, or allocated to another workspace, in pool lent-hot (203.0.113.128/25): others hold 32 addresses of the pool, which are not shown to you; 16 addresses of the pool cool after their release, the next of them until 2026-03-01T12:00:00Z",
		},
		"10.0.0.1": nil,
	} {
		block := must.Get(facts.ParseBlock(asked))(t)
		var got []string
		states, _ := unheld(r, block, pools, nil)
		for _, state := range states {
			got = append(got, state.String())
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", asked, diff)
		}
	}
}

// An allocated address is shown with its holder.
func TestAddressShow_NamesTheHolder(t *testing.T) {
	web := gen.Allocation("web", "lab", "192.0.2.16/28", gen.ByClass("edge"), stage.HourAgo)
	web.Spec.Scope = ipamv1alpha1.Scope(gen.Within("network", "vpc-1"))
	r := &session.View{Path: "root:team-a", Paths: map[string]string{}}
	s := stage.New(t)
	(&seen{View: r}).describe(s.Session, web)
	stage.Golden(t, "address_show", s.Printed.String())
	web.Spec.ClaimRef = nil
	if (&seen{View: r}).describe(s.Session, web); !strings.Contains(s.Printed.String(), "retained") {
		t.Errorf("a block without its claim is shown as %s; want it retained", s.Printed)
	}
}

// If an address is in a network, the network is shown, because another network may have the same address. The pool of
// the network names it.
func TestAddressShow_NamesTheNetwork(t *testing.T) {
	host := gen.Allocation("host", "subnet-red", "10.0.0.5/32")
	host.Spec.Scope = ipamv1alpha1.Scope(gen.Within("vrf", "blue"))
	other, subnet := gen.Pool("subnet-red", gen.Within("network", "other")), gen.Pool("subnet-red", gen.Within("network", "red", "location", "ams"))
	other.Annotations = map[string]string{"kcp.io/cluster": "elsewhere"}
	r := &session.View{Path: "root:team-a", Paths: map[string]string{"elsewhere": "root:team-b"}}
	s := stage.New(t)
	(&seen{View: r, pools: []ipamv1alpha1.IPPool{*subnet, *other}}).describe(s.Session, host)
	if !strings.Contains(s.Printed.String(), "location=ams, network=red, vrf=blue") {
		t.Errorf("the address is shown as %s; want its network, location and VRF", s.Printed)
	}
}

// If it is known that nobody holds a block, that is an answer. If others may hold it, or no pool has it, the error is
// that of an object that is not found.
func TestUnheld_FailsIfTheStateIsUnknown(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), gen.Excludes("192.0.2.16/28")), "192.0.2.0/24", ipamv1alpha1.IPv4, 0, 24)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "0", Available: "256"}
	lent := stage.Ready(gen.Pool("lent", gen.CIDR("198.51.100.0/24")), "198.51.100.0/24", ipamv1alpha1.IPv4, 0, 27)
	lent.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "1", Available: "255"}
	pools := []ipamv1alpha1.IPPool{*pool, *lent}
	for asked, want := range map[string]struct {
		code, states int
	}{
		"192.0.2.128": {exit.OK, 1}, "192.0.2.17": {exit.OK, 1}, "198.51.100.7": {exit.NotFound, 1}, "10.0.0.1": {exit.NotFound, 0},
	} {
		states, err := unheld(&session.View{}, netip.MustParsePrefix(asked+"/32"), pools, nil)
		if exit.CodeOf(err) != want.code || len(states) != want.states {
			t.Errorf("%s: %d states %v and exit code %d (%v), want %d and %d", asked, len(states), states, exit.CodeOf(err), err, want.states, want.code)
		}
	}
}
