package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
)

// hourAgo is when most objects of the tests were made.
var hourAgo = gen.Created(noon.Add(-time.Hour))

func allocated(reason ipamv1alpha1.Reason, message string) []metav1.Condition {
	status := metav1.ConditionFalse
	if reason == ipamv1alpha1.ReasonAllocationSucceeded {
		status = metav1.ConditionTrue
	}
	return []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: status, Reason: string(reason), Message: message}}
}

// ready makes a pool have its block, and so much of it taken.
func ready(pool *ipamv1alpha1.IPPool, cidr string, family ipamv1alpha1.IPFamily, percent float64, largest int32) *ipamv1alpha1.IPPool {
	pool.Status = ipamv1alpha1.IPPoolStatus{
		Phase: ipamv1alpha1.PoolReady, AllocatedCIDR: cidr, IPFamily: family, UtilizationPercent: &percent,
		Conditions: allocated(ipamv1alpha1.ReasonAllocationSucceeded, "holds "+cidr),
	}
	if largest != 0 {
		pool.Status.LargestFreePrefix = &largest
	}
	return pool
}

func bound(claim *ipamv1alpha1.IPClaim, cidr string, from ipamv1alpha1.PoolRef) *ipamv1alpha1.IPClaim {
	claim.Status = ipamv1alpha1.IPClaimStatus{
		Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: cidr, ClassName: claim.Spec.ClassName, IPFamily: ipamv1alpha1.IPv4, PoolRef: &from,
		BoundAllocationRef: &ipamv1alpha1.LocalRef{Name: ipamv1alpha1.AllocationName(claim.Namespace, claim.Name)},
		Conditions:         allocated(ipamv1alpha1.ReasonAllocationSucceeded, "bound to "+cidr),
	}
	return claim
}

func waiting(claim *ipamv1alpha1.IPClaim, reason ipamv1alpha1.Reason, message string) *ipamv1alpha1.IPClaim {
	claim.Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimPending, Conditions: allocated(reason, message)}
	return claim
}

func ofPlatform(name string) ipamv1alpha1.PoolRef {
	return ipamv1alpha1.PoolRef{Name: name, ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}}
}

func TestClaims(t *testing.T) {
	web := bound(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), hourAgo), "10.64.0.0/28", ofPlatform("internal-a"))
	full := waiting(gen.Claim("batch", gen.OfClass("internal"), gen.Length(24), hourAgo),
		ipamv1alpha1.ReasonPoolExhausted, `pool "lab": no free /24: the largest free block is a /26`)
	list := &ipamv1alpha1.IPClaimList{Items: []ipamv1alpha1.IPClaim{*full, *web, *gen.Claim("new")}}
	for _, format := range []string{"table", "wide", "csv", "name", "json", "yaml", "jsonpath={.items[*].status.allocatedCIDR}",
		"custom-columns=WHO:.metadata.name,BLOCK:{.status.allocatedCIDR},WHY:status.conditions[*].reason"} {
		s := newStage(t)
		out := output{}
		out.addFlags(&cobra.Command{})
		out.format = format
		if err := out.validate(); err != nil {
			t.Fatal(err)
		}
		if err := out.print(s.Out, list, s.now); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		form, _, _ := strings.Cut(format, "=")
		golden(t, "claim_list_"+form, s.out.String())
	}
	for _, claim := range []*ipamv1alpha1.IPClaim{web, full} {
		s := newStage(t)
		describeClaim(s.session, claim, nil)
		golden(t, "claim_show_"+claim.Name, s.out.String())
	}
}

// The hierarchy is drawn by address; what a tenant has carved is shown with its workspace.
func TestPoolTree(t *testing.T) {
	pools := []ipamv1alpha1.IPPool{
		*ready(gen.Pool("lab", gen.CIDR("10.8.0.0/16"), gen.Backs("internal", "edge")), "10.8.0.0/16", ipamv1alpha1.IPv4, 37.5, 18),
		*ready(gen.Pool("lab-west", gen.ChildOf("lab", 20)), "10.8.16.0/20", ipamv1alpha1.IPv4, 100, 0),
		*ready(gen.Pool("lab-east", gen.ChildOf("lab", 20)), "10.8.0.0/20", ipamv1alpha1.IPv4, 0.01, 21),
		*ready(gen.Pool("rack-1", gen.ChildOf("lab-east", 24)), "10.8.0.0/24", ipamv1alpha1.IPv4, 80, 30),
		*gen.Pool("lost", gen.ChildOf("lab", 8)),
		*ready(gen.Pool("v6", gen.CIDR("2001:db8::/32")), "2001:db8::/32", ipamv1alpha1.IPv6, 0, 33),
		*ready(gen.Pool("slice", gen.ChildOf("lab", 24)), "10.8.32.0/24", ipamv1alpha1.IPv4, 6.25, 25),
		*ready(gen.Pool("lent", gen.ChildOf("transit", 24)), "172.16.0.0/24", ipamv1alpha1.IPv4, 0, 24),
	}
	pools[3].Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Cooling: "1"} // so little is drawn, too
	pools[4].Status.Conditions = allocated(ipamv1alpha1.ReasonPrefixLengthRejected, "too large")
	team := map[string]string{"kcp.io/cluster": "1abc"}
	pools[6].Annotations = team
	parent := ofPlatform("lab")
	pools[6].Spec.ParentPoolRef = &parent
	net := ipamv1alpha1.PoolRef{Name: "transit", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:net"}}
	pools[7].Spec.ParentPoolRef = &net

	s := newStage(t)
	roots := plant(&reach{path: "root:ipam", paths: map[string]string{"1abc": "root:team-a"}}, pools)
	drawTree(s.Out, s.session.out, roots)
	golden(t, "pool_tree", s.out.String())

	s = newStage(t)
	s.session.out = true
	drawTree(s.Out, s.session.out, find(roots, "lab-east"))
	golden(t, "pool_tree_colour", s.out.String())
}

// The map shows what is seen, and counts what is not.
func TestPoolShow(t *testing.T) {
	pool := ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), gen.Lengths{Min: 25, Max: 32}, gen.Excludes("192.0.2.128/27"),
		gen.Reserves(1, 2, 30), gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:team-b"}, gen.Backs("edge"), gen.Cooldown("30s"), hourAgo),
		"192.0.2.0/24", ipamv1alpha1.IPv4, 42.1875, 26)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "108", Available: "148", Cooling: "32"}
	pool.Status.NextRelease = &metav1.Time{Time: noon.Add(12 * time.Second)}
	web := gen.Allocation("web", "lab", "192.0.2.16/28", gen.ByClass("edge"), hourAgo)
	r := &reach{path: "root:team-a", paths: map[string]string{}}
	held := []space.Holding{
		{Block: prefix(t, "192.0.2.16/28"), Holder: space.HoldingOf(web).Holder, Class: "edge", Since: web.CreationTimestamp},
		{Block: prefix(t, "192.0.2.32/32"), Holder: "retained for default/old", Since: web.CreationTimestamp},
	}
	s := newStage(t)
	if err := describePool(s.session, pool, held); err != nil {
		t.Fatal(err)
	}
	golden(t, "pool_show", s.out.String())

	s = newStage(t)
	describeAllocation(s.session, r, web)
	golden(t, "address_show", s.out.String())
}

// The map fits into COLUMNS, down to a few cells in a line.
func TestSpace_Columns(t *testing.T) {
	for _, test := range []struct {
		pool        string
		width, want int
	}{
		{"192.0.2.0/24", 0, 64}, {"192.0.2.0/24", 80, 64}, {"192.0.2.0/24", 79, 64}, {"192.0.2.0/24", 60, 32}, {"192.0.2.0/24", 10, 8}, {"2001:db8::/32", 80, 32},
	} {
		if got := (spaceMap{space.Space{Pool: prefix(t, test.pool)}}).columns(test.width); got != test.want {
			t.Errorf("the map of %s in lines of %d has %d columns, want %d", test.pool, test.width, got, test.want)
		}
	}
}

func TestClassShow(t *testing.T) {
	class := gen.Class("internal", gen.Lengths{Min: 24, Max: 28}, gen.DefaultLength(28), gen.Default(), gen.Cooldown("1m"), hourAgo)
	class.Status.Phase, class.Status.OfferingPools = ipamv1alpha1.ClassReady, 2
	own := ready(gen.Pool("office", gen.Backs("internal"), hourAgo), "10.0.0.0/16", ipamv1alpha1.IPv4, 25, 17)
	own.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "65536", Allocated: "16384", Available: "49152"}
	s := newStage(t)
	if err := describeClass(s.session, class, []ipamv1alpha1.IPPool{*own}); err != nil {
		t.Fatal(err)
	}
	golden(t, "class_show", s.out.String())

	conflict := gen.Class("second", gen.Default(), hourAgo)
	conflict.Status.Phase = ipamv1alpha1.ClassError
	conflict.Status.Conditions = []metav1.Condition{{
		Type: ipamv1alpha1.ConditionReady, Status: metav1.ConditionFalse,
		Reason: string(ipamv1alpha1.ReasonDefaultConflict), Message: `class "internal" is the default of IPv4 already`,
	}}
	s = newStage(t)
	if err := describeClass(s.session, conflict, nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "class_show_conflict", s.out.String())
}
