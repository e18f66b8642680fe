package pool

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// The map shows the visible blocks, and the number of addresses that the caller does not see is printed.
func TestPoolShow_DrawsAMap(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), gen.Lengths{Min: 25, Max: 32}, gen.Excludes("192.0.2.128/27"),
		gen.Reserves(1, 2, 30), gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:team-b"}, gen.Backs("edge"), gen.Cooldown("30s"), stage.HourAgo),
		"192.0.2.0/24", ipamv1alpha1.IPv4, 42.1875, 26)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "108", Available: "148", Cooling: "32"}
	pool.Status.NextRelease = &metav1.Time{Time: stage.Noon.Add(12 * time.Second)}
	pool.Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: "hall 1"}
	web := gen.Allocation("web", "lab", "192.0.2.16/28", gen.ByClass("edge"), stage.HourAgo)
	held := []space.Holding{
		{Block: netip.MustParsePrefix("192.0.2.16/28"), Holder: space.HoldingOf(web).Holder, Class: "edge", Since: web.CreationTimestamp},
		{Block: netip.MustParsePrefix("192.0.2.32/32"), Holder: "retained for default/old", Since: web.CreationTimestamp},
	}
	s := stage.New(t)
	must.Do(t, describePool(s.Session, &space.Pool{Object: pool, Held: held}))
	stage.Golden(t, "pool_show", s.Printed.String())
}

// An owner excludes a part of a pool in order to empty it. The map and the list then mark the blocks that still have to
// be released there.
func TestPoolShow_MarksBlocksInAnExclusion(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), gen.Excludes("192.0.2.128/27"), stage.HourAgo), "192.0.2.0/24", ipamv1alpha1.IPv4, 25, 25)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "48", Available: "208"}
	held := []space.Holding{
		{Block: netip.MustParsePrefix("192.0.2.16/28"), Holder: "claim default/web"},
		{Block: netip.MustParsePrefix("192.0.2.136/32"), Holder: "claim default/old"},
	}
	s := stage.New(t)
	must.Do(t, describePool(s.Session, &space.Pool{Object: pool, Held: held}))
	shown := s.Printed.String()
	for _, want := range []string{"! excluded and still held", "  192.0.2.128  ××××××××!×", "EXCLUDED"} {
		if !strings.Contains(shown, want) {
			t.Errorf("it lacks %q:\n%s", want, shown)
		}
	}
	for line := range strings.Lines(shown) {
		if inside := strings.Contains(line, "default/old"); (inside || strings.Contains(line, "default/web")) && strings.Contains(line, "192.0.2.128/27") != inside {
			t.Errorf("the exclusion stands at the wrong block: %s", line)
		}
	}
}

// If a claim was answered and is not stored, its block has no record. The status of the pool says whose it is.
func TestPoolShow_SaysWhatTheControllerKnowsOfOthers(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), stage.HourAgo), "192.0.2.0/24", ipamv1alpha1.IPv4, 25, 25)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "16", Available: "240"}
	const said = "the pool holds 1 block, of claim default/web (answered, not stored yet: free by 12:03:10)"
	pool.Status.Conditions = append(pool.Status.Conditions, metav1.Condition{
		Type: ipamv1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: string(ipamv1alpha1.ReasonInUse), Message: said,
	})
	s := stage.New(t)
	must.Do(t, describePool(s.Session, &space.Pool{Object: pool}))
	if !strings.Contains(s.Printed.String(), "others hold 16 addresses") || !strings.Contains(s.Printed.String(), said) {
		t.Errorf("it shows %s; want %q", s.Printed, said)
	}
}

// A pool that nobody uses may have addresses taken by idle pools. The controller says when these go.
func TestPoolShow_SaysWhenIdlePoolsGo(t *testing.T) {
	const said = "nobody uses the pool; 1 idle pool has a block of it until 12:40:07 UTC"
	for allocated, want := range map[string]bool{"64": true, "0": false} {
		pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), stage.HourAgo), "192.0.2.0/24", ipamv1alpha1.IPv4, 25, 25)
		pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: allocated, Available: "192"}
		pool.Status.Conditions = append(pool.Status.Conditions, metav1.Condition{
			Type: ipamv1alpha1.ConditionInUse, Status: metav1.ConditionFalse, Reason: string(ipamv1alpha1.ReasonUnused), Message: said,
		})
		s := stage.New(t)
		must.Do(t, describePool(s.Session, &space.Pool{Object: pool}))
		if strings.Contains(s.Printed.String(), said) != want {
			t.Errorf("with %s addresses allocated it shows %s; want the message: %t", allocated, s.Printed, want)
		}
	}
}

// If something is wrong with a pool that has its block, the output says so.
func TestPoolShow_WarnsOfGatewayAndOverlap(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), stage.HourAgo), "192.0.2.0/24", ipamv1alpha1.IPv4, 0, 24)
	pool.Status.Conditions[0].Message += "; spec.gateway 192.0.2.2 lies in 192.0.2.2/32, which claim default/web holds: release that, or write another gateway"
	pool.Status.Conditions = append(pool.Status.Conditions, metav1.Condition{
		Type: ipamv1alpha1.ConditionOverlapping, Status: metav1.ConditionTrue, Reason: string(ipamv1alpha1.ReasonForeignSpace), Message: "192.0.2.0/24 overlaps others",
	})
	s := stage.New(t)
	must.Do(t, describePool(s.Session, &space.Pool{Object: pool}))
	for _, want := range []string{"which claim default/web holds", "overlaps others"} {
		if !strings.Contains(s.Printed.String(), want) {
			t.Errorf("it shows %s; want %q", s.Printed, want)
		}
	}
}

// A percentage beyond 0 to 100 from a server does not crash the program.
func TestBar_AcceptsAnImpossiblePercentage(t *testing.T) {
	t.Parallel()
	for percent, full := range map[float64]int{-5: 0, 0.05: 0, 3: 0, 4: 1, 0: 0, 100: 16, 250: 16, 1e300: 16} {
		drawn := string(bar(screen.Paint(false), stage.Ready(gen.Pool("p"), "10.0.0.0/8", ipamv1alpha1.IPv4, percent, 0)))
		if got := strings.Count(drawn, "█"); got != full {
			t.Errorf("%v%% is drawn as %q with %d full cells; want %d", percent, drawn, got, full)
		}
	}
}

// If an address is kept back for two reasons, or kept back and taken, it is counted once.
func TestDrawMap_CountsEachAddressOnce(t *testing.T) {
	t.Parallel()
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("10.0.0.0/21"), gen.Excludes("10.0.0.0/32"), gen.Reserves(1, 0, 32)), "10.0.0.0/21", ipamv1alpha1.IPv4, 1, 22)
	for taken, want := range map[string]string{"": "░", "10.0.0.0/32": "░", "10.0.0.1/32": "░", "10.0.0.2/31": "▓", "10.0.0.0/30": "█"} {
		var held []space.Holding
		if taken != "" {
			held = []space.Holding{{Block: netip.MustParsePrefix(taken)}}
		}
		shown := (&space.Pool{Object: pool, Held: held}).Space()
		if got := signs(shown, partsOf(shown.Pool), nil)[0]; got != want {
			t.Errorf("with %q taken the first /30 is drawn as %s, want %s", taken, got, want)
		}
	}
}

// If a pool was made for a scope, the tree and the pool's own page say so.
func TestPool_ShowsItsScope(t *testing.T) {
	pool := stage.Ready(gen.Pool("vpc-web-vpc-1", gen.ChildOf("root", 48), gen.Within("network", "vpc-1")), "2001:db8::/48", ipamv1alpha1.IPv6, 0, 48)
	pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "vpc"}
	s := stage.New(t)
	drawTree(s.Out, s.Paint, plant(&session.View{}, (&session.View{}).Visible([]ipamv1alpha1.IPPool{*pool}, nil)))
	if want := "for network=vpc-1; made by class vpc"; !strings.Contains(s.Printed.String(), want) {
		t.Errorf("the tree is %q, want it to say %q", s.Printed, want)
	}
	pool.Status.Capacity, pool.Status.Spaces = nil, 2
	s = stage.New(t)
	must.Do(t, describePool(s.Session, &space.Pool{Object: pool}))
	for _, want := range []string{"network=vpc-1", "class vpc"} {
		if !strings.Contains(s.Printed.String(), want) {
			t.Errorf("the page is %q, want it to say %q", s.Printed, want)
		}
	}
}

// If two networks have the same address, its holders are listed with their networks.
func TestListHoldings_NamesNetworks(t *testing.T) {
	s := stage.New(t)
	var held []space.Holding
	for _, network := range []string{"vpc-1", "vpc-2"} {
		a := gen.Allocation("eth0", "p", "10.0.0.1/32")
		a.Spec.Scope = ipamv1alpha1.Scope(gen.Within("network", network))
		held = append(held, space.HoldingOf(a))
	}
	must.Do(t, listHoldings(s.Session, &space.Pool{Held: held}))
	for _, want := range []string{"SCOPE", "network=vpc-1", "network=vpc-2"} {
		if !strings.Contains(s.Printed.String(), want) {
			t.Errorf("the table is\n%s\nwant it to say %s", s.Printed, want)
		}
	}
}

// A pool with the pools below it is shown in each form. A pool that does not exist is an error in each form.
func TestPoolTree_ShowsOnePool(t *testing.T) {
	pools := []ipamv1alpha1.IPPool{*gen.Pool("edge"), *gen.Pool("rack", gen.ChildOf("east", 24)), *gen.Pool("lab"), *gen.Pool("east", gen.ChildOf("lab", 20))}
	for _, test := range []struct {
		args []string
		want string
		code int
	}{
		{nil, "edge\nrack\nlab\neast\n", exit.OK},
		{[]string{"lab"}, "lab\neast\nrack\n", exit.OK},
		{[]string{"rack"}, "rack\n", exit.OK},
		{[]string{"lap"}, "", exit.NotFound},
	} {
		for _, format := range []string{"", output.Name} {
			s, out := stage.New(t), &output.Printer{NoHeaders: true}
			cmd := &cobra.Command{}
			out.AddFlags(cmd)
			out.Format, out.NoHeaders = format, true
			must.Do(t, cmd.PreRunE(cmd, nil))
			err := showTree(s.Session, plant(&session.View{}, (&session.View{}).Visible(pools, nil)), pools, test.args, out)
			if exit.CodeOf(err) != test.code || format != "" && strings.ReplaceAll(s.Printed.String(), "ippool.ipam.miloapis.com/", "") != test.want {
				t.Errorf("pool tree %v -o %q prints %q and ends with %v; want %q and %d", test.args, format, s.Printed, err, test.want, test.code)
			}
		}
	}
}

// The tree is sorted by address. Pools that tenants have carved are shown with their workspaces.
func TestPoolTree_IsSortedByAddress(t *testing.T) {
	pools := []ipamv1alpha1.IPPool{
		*stage.Ready(gen.Pool("lab", gen.CIDR("10.8.0.0/16"), gen.Backs("internal", "edge")), "10.8.0.0/16", ipamv1alpha1.IPv4, 37.5, 18),
		*stage.Ready(gen.Pool("lab-west", gen.ChildOf("lab", 20)), "10.8.16.0/20", ipamv1alpha1.IPv4, 100, 0),
		*stage.Ready(gen.Pool("lab-east", gen.ChildOf("lab", 20)), "10.8.0.0/20", ipamv1alpha1.IPv4, 0.01, 21),
		*stage.Ready(gen.Pool("rack-1", gen.ChildOf("lab-east", 24)), "10.8.0.0/24", ipamv1alpha1.IPv4, 80, 30),
		*gen.Pool("lost", gen.ChildOf("lab", 8)),
		*stage.Ready(gen.Pool("v6", gen.CIDR("2001:db8::/32")), "2001:db8::/32", ipamv1alpha1.IPv6, 0, 33),
		*stage.Ready(gen.Pool("slice", gen.ChildOf("lab", 24)), "10.8.32.0/24", ipamv1alpha1.IPv4, 6.25, 25),
		*stage.Ready(gen.Pool("lent", gen.ChildOf("transit", 24)), "172.16.0.0/24", ipamv1alpha1.IPv4, 0, 24),
	}
	pools[3].Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Cooling: "1"}
	pools[4].Status.Conditions = stage.Allocated(ipamv1alpha1.ReasonPrefixLengthRejected, "too large")
	team := map[string]string{"kcp.io/cluster": "1abc"}
	pools[6].Annotations = team
	parent := stage.OfPlatform("lab")
	pools[6].Spec.ParentPoolRef = &parent
	net := ipamv1alpha1.PoolRef{Name: "transit", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:net"}}
	pools[7].Spec.ParentPoolRef = &net

	s := stage.New(t)
	r := &session.View{Path: "root:ipam", Paths: map[string]string{"1abc": "root:team-a"}}
	roots := plant(r, r.Visible(pools, nil))
	drawTree(s.Out, s.Paint, roots)
	stage.Golden(t, "pool_tree", s.Printed.String())

	s = stage.New(t)
	s.Paint = true
	drawTree(s.Out, s.Paint, nodesNamed(roots, "lab-east"))
	stage.Golden(t, "pool_tree_colour", s.Printed.String())
}

// circle returns two pools that are each the parent of the other, and a pool that is its own parent. None of them ever
// gets a block, and no server refuses to create them.
func circle() []ipamv1alpha1.IPPool {
	return []ipamv1alpha1.IPPool{*gen.Pool("a", gen.ChildOf("b", 20)), *gen.Pool("b", gen.ChildOf("a", 20)), *gen.Pool("own", gen.ChildOf("own", 20))}
}

// The tree shows each pool of a circle once.
func TestPoolTree_ShowsPoolsOfACircleOnce(t *testing.T) {
	s, pools := stage.New(t), circle()
	drawTree(s.Out, s.Paint, plant(&session.View{}, (&session.View{}).Visible(pools, nil)))
	for _, pool := range pools {
		if n := strings.Count(s.Printed.String(), pool.Name+" "); n != 1 {
			t.Errorf("the tree has %d lines of pool %s; want 1:\n%s", n, pool.Name, s.Printed)
		}
	}
}
