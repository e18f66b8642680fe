package pool

import (
	"net/netip"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// The next blocks are printed one per line, or as data. How many addresses the caller does not see is said.
func TestPoolNext_PrintsLinesOrData(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), gen.Lengths{Min: 26, Max: 30}, gen.Reserves(1, 0, 28)), "192.0.2.0/24", ipamv1alpha1.IPv4, 25, 25)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "64", Available: "192"}
	held := []space.Holding{{Block: netip.MustParsePrefix("192.0.2.16/28"), Holder: "claim default/web"}}
	for format, want := range map[string]string{
		"":     "192.0.2.32/28\n192.0.2.48/28\n",
		"name": "192.0.2.32/28\n192.0.2.48/28\n",
		"csv":  "BLOCK,POOL,LENGTH,ADDRESSES\n192.0.2.32/28,lab,/28,16\n192.0.2.48/28,lab,/28,16\n",
		"yaml": "blocks:\n- 192.0.2.32/28\n- 192.0.2.48/28\nlength: 28\npool: lab\nstrategy: FirstFit\nunseen: \"32\"\n",
	} {
		s := stage.New(t)
		o := &next{Session: s.Session, report: output.Printer{Format: format}, length: 28, count: 2}
		must.Do(t, o.show(&space.Pool{Object: pool, Held: held}))
		if got := s.Printed.String(); got != want {
			t.Errorf("-o %q prints %q, want %q", format, got, want)
		}
		if said := "others hold 32 addresses"; !strings.Contains(s.Said.String(), said) {
			t.Errorf("-o %q says %q, want %q", format, s.Said, said)
		}
	}
}

// A cooling block has no IPAllocation, so some of the next blocks may be cooling. The output says so.
func TestPoolNext_WarnsOfCoolingAddresses(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24")), "192.0.2.0/24", ipamv1alpha1.IPv4, 25, 25)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "16", Available: "240", Cooling: "16"}
	s := stage.New(t)
	o := &next{Session: s.Session, length: 28, count: 1}
	must.Do(t, o.show(&space.Pool{Object: pool}))
	if said := s.Said.String(); !strings.Contains(said, "16 addresses of the pool cool after their release") || strings.Contains(said, "others hold") {
		t.Errorf("it says %q; want how much cools, and nothing of others", said)
	}
}

// If a pool gives each network the same addresses, --scope asks for one network. The blocks of other networks are free
// there, whatever the figures of the fullest network are.
func TestPoolNext_ShowsTheSpaceOfAScope(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24")), "192.0.2.0/24", ipamv1alpha1.IPv4, 100, 32)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "256", Available: "0"}
	pool.Status.Spaces, pool.Status.LargestFreePrefix = 2, nil
	held := []space.Holding{
		{Block: netip.MustParsePrefix("192.0.2.0/24"), Scope: "network=full"},
		{Block: netip.MustParsePrefix("192.0.2.0/28"), Scope: "network=vpc-1"},
		{Block: netip.MustParsePrefix("192.0.2.16/28"), Scope: "network=vpc-1", Workspace: "root:other"},
	}
	for name, want := range map[string]struct {
		code int
		says string
	}{"vpc-1": {exit.OK, "192.0.2.16/28\n"}, "new": {exit.OK, "192.0.2.0/28\n"}, "full": {7, ""}} {
		s := stage.New(t)
		o := &next{Session: s.Session, length: 28, count: 1, scope: ipamv1alpha1.Scope{"network": {Kind: "Network", Name: name}, "zone": {Kind: "Zone", Name: "a"}}}
		err := o.show((&space.Pool{Object: pool, Held: held}).Within(o.scope))
		if code := exit.CodeOf(err); code != want.code || s.Printed.String() != want.says || strings.Contains(s.Said.String(), "others hold") {
			t.Errorf("in %s it ends with %d, prints %q and says %q; want %d and %q", name, code, s.Printed, s.Said, want.code, want.says)
		}
	}
	if pool.Status.Capacity.Allocated != "256" {
		t.Error("the pool itself has changed")
	}
}

// The advice names the largest free block. As there is no claim, it does not say that a claim will bind by itself.
func TestPoolNext_AdvisesTheLargestFreeBlock(t *testing.T) {
	roomy := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24")), "192.0.2.0/24", ipamv1alpha1.IPv4, 50, 29)
	roomy.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "128", Available: "128"}
	used := roomy.DeepCopy()
	used.Status.Capacity.Available, used.Status.LargestFreePrefix = "0", nil
	for want, pool := range map[string]*ipamv1alpha1.IPPool{
		"the largest free block of the pool is a /29": roomy, "no address of the pool is free": used,
	} {
		s := stage.New(t)
		hint := exit.HintOf((&next{Session: s.Session, length: 28, count: 1}).show(&space.Pool{Object: pool}))
		if !strings.HasPrefix(hint, want) || strings.Contains(hint, "by itself") {
			t.Errorf("the hint is %q; want %q, and no promise", hint, want)
		}
	}
}

// If a pool has no such block, the exit code is that of the reason.
func TestPoolNext_EndsWithTheCodeOfTheReason(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), gen.Lengths{Min: 26, Max: 30}), "192.0.2.0/24", ipamv1alpha1.IPv4, 25, 25)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "256", Available: "0"}
	full := []space.Holding{{Block: netip.MustParsePrefix("192.0.2.0/24")}}
	roomy := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24")), "192.0.2.0/24", ipamv1alpha1.IPv4, 50, 29)
	roomy.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "128", Available: "128"}
	for _, test := range []struct {
		pool   *ipamv1alpha1.IPPool
		length int32
		held   []space.Holding
		code   int
		says   string
	}{
		{pool, 28, full, 7, "has no free /28"},
		{pool, 28, nil, 7, "has no free /28"}, // some of its blocks are not shown
		{pool, 25, nil, exit.Invalid, "pool lab gives /26 to /30, not /25"},
		{pool, 31, nil, exit.Invalid, "not /31"},
		{pool, 0, nil, exit.Usage, "give --length"},
		{roomy, 28, nil, 7, "has no free /28"}, // its largest free block is a /29
		{roomy, 29, nil, exit.OK, ""},
	} {
		s := stage.New(t)
		err := (&next{Session: s.Session, length: test.length, count: 1}).show(&space.Pool{Object: test.pool, Held: test.held})
		if got := exit.CodeOf(err); got != test.code || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("pool next --length %d ended with %d and said %q; want %d and %q", test.length, got, err, test.code, test.says)
		}
	}
}
