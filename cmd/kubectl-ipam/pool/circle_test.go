package pool

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// circle is two pools that are each the parent of the other, and one that is its own. None of them
// ever gets a block, and nothing refuses to create them.
func circle() []ipamv1alpha1.IPPool {
	return []ipamv1alpha1.IPPool{*gen.Pool("a", gen.ChildOf("b", 20)), *gen.Pool("b", gen.ChildOf("a", 20)), *gen.Pool("own", gen.ChildOf("own", 20))}
}

// Releasing a pool of a circle releases each pool of it once.
func TestEstate_Circle(t *testing.T) {
	t.Parallel()
	pools := circle()
	for root, want := range map[int]string{0: "b a", 1: "a b", 2: "own"} {
		doomed := &estate{}
		doomed.addPools(&pools[root], pools)
		var got []string
		for _, pool := range doomed.pools {
			got = append(got, pool.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("with pool %s go the pools %v; want %s", pools[root].Name, got, want)
		}
	}
}

// The tree shows pools of a circle, each once.
func TestPoolTree_Circle(t *testing.T) {
	s, pools := stage.New(t), circle()
	drawTree(s.Out, s.Paint, plant(&reach.View{}, pools))
	for _, pool := range pools {
		if n := strings.Count(s.Printed.String(), pool.Name+" "); n != 1 {
			t.Errorf("the tree has %d lines of pool %s; want 1:\n%s", n, pool.Name, s.Printed)
		}
	}
}
