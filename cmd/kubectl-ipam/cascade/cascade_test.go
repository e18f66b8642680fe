package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/cascade"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// When a pool is released that is its own ancestor, each pool of the circle is released once. Pools that the system has
// made are left out: they go by themselves.
func TestEstate_HasEachPoolOnce(t *testing.T) {
	t.Parallel()
	made := gen.Pool("made", gen.ChildOf("own", 24))
	made.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "net"}
	pools := []ipamv1alpha1.IPPool{*gen.Pool("a", gen.ChildOf("b", 20)), *gen.Pool("b", gen.ChildOf("a", 20)), *gen.Pool("own", gen.ChildOf("own", 20)), *made}
	for root, want := range map[int]string{0: "b a", 1: "a b", 2: "own"} {
		doomed := &cascade.Estate{}
		doomed.AddPool(&pools[root], pools)
		var got []string
		for _, pool := range doomed.Pools {
			got = append(got, pool.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("with pool %s go the pools %v; want %s", pools[root].Name, got, want)
		}
	}
}

// held returns a bound claim, for a block or a range, in a pool of this workspace or of another one.
func held(name, cidr, pool, workspace string, as ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
	ref := ipamv1alpha1.PoolRef{Name: pool}
	if workspace != "" {
		ref.ProjectRef = &ipamv1alpha1.ProjectRef{Name: workspace}
	}
	return stage.Bound(gen.Claim(name, as...), cidr, ref)
}

// The claims inside a range are those in its pool and in the pools below it, found by the names of the pools. If the
// pools are in another workspace, the claims are found by block and scope, because another network may have the same
// addresses.
func TestOfRanges_FindsClaimsInside(t *testing.T) {
	t.Parallel()
	for name, workspace := range map[string]string{"pools of this workspace": "", "pools of the platform": "root:ipam"} {
		net := held("net", "10.1.0.0/16", "net", workspace, gen.ForRange(), gen.OfClass("net"), gen.Within("network", "a"))
		objects := []client.Object{
			net,
			held("ams", "10.1.2.0/24", "ams", workspace, gen.ForRange(), gen.OfClass("subnet"), gen.Within("network", "a", "location", "ams")),
			held("eth0", "10.1.2.3/32", "ams", workspace, gen.Within("network", "a", "location", "ams")),
			held("other", "10.1.2.3/32", "twin", workspace, gen.Within("network", "b", "location", "ams")),
			held("elsewhere", "10.2.0.0/32", "net2", workspace, gen.Within("network", "a")),
			held("own", "10.1.2.3/32", "lab", ""),
		}
		class := gen.Class("net")
		class.Spec.PoolPer = []string{"network", ipamv1alpha1.RoleAllProjects}
		objects = append(objects, class)
		if workspace == "" {
			objects = append(objects, gen.Pool("net"), gen.Pool("ams", gen.ChildOf("net", 24)))
		}
		e := must.Get(cascade.OfRanges(t.Context(), stage.Server(t, interceptor.Funcs{}, objects...), "default", []*ipamv1alpha1.IPClaim{net}))(t)
		var got []string
		for _, level := range cascade.Levels(e.Claims) {
			for _, object := range level {
				got = append(got, object.GetName())
			}
			got = append(got, "|")
		}
		if said := strings.Join(got, " "); said != "eth0 | ams | net |" {
			t.Errorf("%s: released are %s; want eth0 | ams | net |", name, said)
		}
	}
}

// claims makes some claims.
func claims(n int) (made []client.Object) {
	for i := range n {
		made = append(made, gen.Claim(fmt.Sprintf("c%03d", i)))
	}
	return made
}

// The claims of a level are released when all of the level before are.
func TestRun_ReleasesALevelBeforeTheNext(t *testing.T) {
	inner, outer := claims(40), claims(3)
	var mu sync.Mutex
	left := len(inner)
	must.Do(t, cascade.Run{Session: stage.New(t).Session}.Do(t.Context(), [][]client.Object{inner, outer}, func(_ context.Context, o client.Object) error {
		mu.Lock()
		defer mu.Unlock()
		if outer[0] == o || outer[1] == o || outer[2] == o {
			if left > 0 {
				t.Errorf("%s is released while %d of the level before are left", o.GetName(), left)
			}
			return nil
		}
		left--
		return nil
	}))
}

// After a failure, the others of the level are released. If only a few releases may fail, no further level is begun.
// The error says how many claims were released, and has the exit code of the failure.
func TestRun_SaysWhatIsLeft(t *testing.T) {
	inner, outer := claims(40), claims(1)
	failed := exit.Fail(exit.Forbidden, "ask for the role", "no")
	err := cascade.Run{Session: stage.New(t).Session, Most: 2}.Do(t.Context(), [][]client.Object{inner, outer}, func(_ context.Context, o client.Object) error {
		if o == inner[7] {
			return failed
		}
		return nil
	})
	if want := "39 of 41 claims released; run it again (left: default/c007, default/c000)"; !errors.Is(err, failed) || !strings.Contains(err.Error(), want) || exit.CodeOf(err) != exit.Forbidden {
		t.Errorf("Do = %v, with code %d; want the failure, and %q", err, exit.CodeOf(err), want)
	}
	if err := (cascade.Run{Session: stage.New(t).Session}).Do(t.Context(), [][]client.Object{outer}, func(context.Context, client.Object) error { return failed }); !errors.Is(err, failed) || strings.Contains(err.Error(), "left") {
		t.Errorf("of one claim, Do = %v; want its failure alone", err)
	}
}

// An interrupt ends the run early, and the error says how many claims were released.
func TestRun_SaysWhatIsLeftWhenInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var mu sync.Mutex
	released := 0
	err := cascade.Run{Session: stage.New(t).Session}.Do(ctx, [][]client.Object{claims(500)}, func(ctx context.Context, _ client.Object) error {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if released++; released == 123 {
			interrupt()
		}
		return nil
	})
	if want := "interrupted: 123 of 500 claims released; run it again (left: "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "and 374 others)") || exit.CodeOf(err) != exit.Aborted {
		t.Errorf("Do = %v, with code %d; want %q and %d", err, exit.CodeOf(err), want, exit.Aborted)
	}
}
