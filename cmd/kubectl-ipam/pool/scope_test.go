package pool

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A pool that was made for a scope says so in the tree, and on its page.
func TestPool_Scope(t *testing.T) {
	pool := stage.Ready(gen.Pool("vpc-web-vpc-1", gen.ChildOf("root", 48), gen.Within("network", "vpc-1")), "2001:db8::/48", ipamv1alpha1.IPv6, 0, 48)
	pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "vpc"}
	s := stage.New(t)
	drawTree(s.Out, s.Paint, plant(&reach.View{}, []ipamv1alpha1.IPPool{*pool}))
	if want := "for network=vpc-1; made by class vpc"; !strings.Contains(s.Printed.String(), want) {
		t.Errorf("the tree is %q, want it to say %q", s.Printed, want)
	}
	pool.Status.Capacity, pool.Status.Spaces = nil, 2
	s = stage.New(t)
	if err := describePool(s.Session, pool, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"network=vpc-1", "class vpc"} {
		if !strings.Contains(s.Printed.String(), want) {
			t.Errorf("the page is %q, want it to say %q", s.Printed, want)
		}
	}
}

// The holders of one address in two networks are told apart.
func TestListHoldings_Scope(t *testing.T) {
	s := stage.New(t)
	var held []space.Holding
	for _, network := range []string{"vpc-1", "vpc-2"} {
		a := gen.Allocation("eth0", "p", "10.0.0.1/32")
		a.Spec.Scope = ipamv1alpha1.Scope(gen.Within("network", network))
		held = append(held, space.HoldingOf(a))
	}
	if err := listHoldings(s.Session, held); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SCOPE", "network=vpc-1", "network=vpc-2"} {
		if !strings.Contains(s.Printed.String(), want) {
			t.Errorf("the table is\n%s\nwant it to say %s", s.Printed, want)
		}
	}
}
