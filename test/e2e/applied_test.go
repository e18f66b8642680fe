package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A claim that is applied again as it is stays as it is. kcp (v0.31.2) stores an object of any kind without the annotation of
// its logical cluster, and with it at the first request that updates or applies it: that one write is kcp's. A second one
// would be ours. On a Kubernetes there is none.
func TestApply_Again(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.DefaultLength(28))
	s.pool(s.cidr)
	if writes := appliedAgain(t, s.tenant, s.name); writes > 1 {
		t.Errorf("a claim that was applied three times more was written %d times; want once at most", writes)
	}
}

// A claim is not written when it is applied again.
func standaloneApply(t *testing.T, cluster *framework.Platform) {
	name := framework.Name(t)
	offer(t, cluster, name, cluster.CIDR(t), gen.DefaultLength(28))
	if writes := appliedAgain(t, cluster, name); writes > 0 {
		t.Errorf("a claim that was applied three times more was written %d times; want never", writes)
	}
}

// appliedAgain applies a new claim of a class, and then three times more as it is. It returns how often that wrote the claim.
func appliedAgain(t *testing.T, c client.WithWatch, class string) (writes int) {
	t.Helper()
	claim := answered(t, c, gen.Claim("applied", gen.OfClass(class)), apply)
	framework.WaitBound(t, c, claim)
	for range 3 {
		again := gen.Claim("applied", gen.OfClass(class))
		must.Do(t, apply(t.Context(), c, again))
		if again.ResourceVersion != claim.ResourceVersion {
			writes++
			claim.ResourceVersion = again.ResourceVersion
		}
		again.TypeMeta = claim.TypeMeta // which a typed read leaves out
		if diff := cmp.Diff(claim, again); diff != "" {
			t.Errorf("the claim is another after it was applied as it is (-was +is):\n%s", diff)
		}
	}
	return writes
}
