package claim

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A claim for a taken address is told the holder in its own workspace, a child pool included.
func TestWhy_NamesTheHolderOfAnAddress(t *testing.T) {
	parent := *stage.Ready(gen.Pool("lab"), "198.51.100.0/24", ipamv1alpha1.IPv4, 50, 25)
	child := *stage.Ready(gen.Pool("child", gen.ChildOf("lab", 28)), "198.51.100.0/28", ipamv1alpha1.IPv4, 0, 28)
	web := *gen.Allocation("web", "lab", "198.51.100.16/28")
	foreign := *gen.Allocation("other", "lab", "198.51.100.32/28")
	foreign.Spec.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: "root:net"}
	for address, want := range map[string]string{
		"198.51.100.5":  "pool child holds 198.51.100.0/28",
		"198.51.100.20": "claim default/web holds 198.51.100.16/28",
		"198.51.100.40": "",
	} {
		pools := []ipamv1alpha1.IPPool{parent, child}
		claim := gen.Claim("a", gen.FromPool("lab"), gen.Address(address))
		found, err := takenOf(t.Context(), stage.Server(t, interceptor.Funcs{}, &web, &foreign), claim, pools)
		q := question{claim: claim, taken: found}
		if got := q.says(&parent); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", address, got, err, want)
		}
	}
}
