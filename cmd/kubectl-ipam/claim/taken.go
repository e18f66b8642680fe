package claim

import (
	"context"
	"net/netip"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// taken says for each pool of the workspace which claim, retained block or child pool of the same workspace holds some of
// the address that a claim asks for. The zero value knows of none.
type taken struct {
	exact netip.Prefix
	held  map[reach.Key][]space.Holding
}

// takenOf reads the holders that the caller may see.
func takenOf(ctx context.Context, c client.Reader, claim *ipamv1alpha1.IPClaim, pools []ipamv1alpha1.IPPool) (taken, error) {
	exact, err := facts.ParseBlock(claim.Spec.Address)
	if err != nil {
		return taken{}, nil //nolint:nilerr // it asks for a length
	}
	allocations := &ipamv1alpha1.IPAllocationList{}
	if err := c.List(ctx, allocations); exit.IgnoreUnseen(err) != nil {
		return taken{}, err
	}
	return taken{exact, (&reach.View{}).AllHoldings(pools, allocations.Items)}, nil
}

// in names the holder of the address in a pool; empty if the caller can see none.
func (t taken) in(pool *ipamv1alpha1.IPPool) string {
	for _, h := range t.held[reach.Key{Name: pool.Name}] {
		if h.Block.Overlaps(t.exact) {
			return h.Holder + " holds " + h.Block.String()
		}
	}
	return ""
}
