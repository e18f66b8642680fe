package claim

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// hurried calls the function first before each Lookup.
type hurried struct {
	views.Blocks
	first func()
}

func (h hurried) Lookup(ctx context.Context, id ledger.ClaimID) (ledger.Block, bool, error) {
	h.first()
	return h.Blocks.Lookup(ctx, id)
}

// A retained record is deleted after a pass has read it, and before the claim waits for its deletion. The pass binds
// the claim all the same, because the event of the deletion woke nobody.
func TestReuse_BindsIfTheRetainedRecordGoes(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]gen.ClaimOption{
		"no claim that reuses": gen.OnRetained(""),
		"another length":       gen.Length(30),
		"a block is shown":     gen.Address("10.0.0.16"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, allocator.Options{}, offered())
			s.retains("c")
			claim, answer := reuses(gen.OfClass("internal"), option), door.Answer{}
			if claim.Spec.Address != "" { // bound before the record was retained
				must.Get(s.ledger.Bind(t.Context(), ledger.Request{
					Pool: "uid-of-p", Class: "internal", Exact: netip.MustParsePrefix("10.0.0.16/28"), Length: 28, Holder: promise.HolderOf("tenant", claim),
				}))(t)
				answer.Status.AllocatedCIDR, answer.Status.Phase = "10.0.0.16/28", ipamv1alpha1.ClaimBound
			}
			s.stored(claim, answer)
			goes := sync.OnceFunc(func() {
				must.Do(t, s.tenant.Client.Delete(t.Context(), gen.Allocation("c", "p", "")))
			})
			s.Ledger.Blocks = hurried{s.Ledger.Blocks, goes}
			if after := s.reconcile("c"); !strings.HasPrefix(after.Status.AllocatedCIDR, "10.0.0.16/") {
				t.Errorf("the claim is %+v, want it bound beside the retained block", after.Status)
			}
			s.ownRecord()
		})
	}
}
