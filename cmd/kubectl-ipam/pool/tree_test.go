package pool

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A pool and those below it are shown in each form, and a pool that does not exist in none.
func TestPoolTree_Name(t *testing.T) {
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
			if err := cmd.PreRunE(cmd, nil); err != nil {
				t.Fatalf("PreRunE: %v", err)
			}
			err := showTree(s.Session, &reach.View{}, pools, test.args, out)
			if exit.CodeOf(err) != test.code || format != "" && strings.ReplaceAll(s.Printed.String(), "ippool.ipam.miloapis.com/", "") != test.want {
				t.Errorf("pool tree %v -o %q prints %q and ends with %v; want %q and %d", test.args, format, s.Printed, err, test.want, test.code)
			}
		}
	}
}

// The hierarchy is drawn by address; what a tenant has carved is shown with its workspace.
func TestPoolTree(t *testing.T) {
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
	pools[3].Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Cooling: "1"} // so little is drawn, too
	pools[4].Status.Conditions = stage.Allocated(ipamv1alpha1.ReasonPrefixLengthRejected, "too large")
	team := map[string]string{"kcp.io/cluster": "1abc"}
	pools[6].Annotations = team
	parent := stage.OfPlatform("lab")
	pools[6].Spec.ParentPoolRef = &parent
	net := ipamv1alpha1.PoolRef{Name: "transit", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:net"}}
	pools[7].Spec.ParentPoolRef = &net

	s := stage.New(t)
	roots := plant(&reach.View{Path: "root:ipam", Paths: map[string]string{"1abc": "root:team-a"}}, pools)
	drawTree(s.Out, s.Paint, roots)
	stage.Golden(t, "pool_tree", s.Printed.String())

	s = stage.New(t)
	s.Paint = true
	drawTree(s.Out, s.Paint, nodesNamed(roots, "lab-east"))
	stage.Golden(t, "pool_tree_colour", s.Printed.String())
}
