package claim

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
)

// interrupted is a ledger in which something happens once, right after a Bind.
type interrupted struct {
	views.Blocks
	by func()
}

func (i *interrupted) Bind(ctx context.Context, r ledger.Request) (ledger.Block, error) {
	b, err := i.Blocks.Bind(ctx, r)
	if i.by != nil {
		i.by()
		i.by = nil
	}
	return b, err
}

// hinted are releases that take every hint.
type hinted struct{ Releases }

func (hinted) Deleted(ledger.Holder, *ipamv1alpha1.IPClaim, *ipamv1alpha1.IPAllocation) {}
func (hinted) Missed(ledger.Holder, *ipamv1alpha1.IPClaim)                              {}

// A claim is deleted during its pass, which ends after the event of the deletion. What the pass notes of the claim
// is forgotten, too. Of a claim that the cache still shows it is kept.
func TestReconcile_ForgetsAClaimDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{true, false} {
		s := newScene(t, allocator.Options{}, offered())
		tenant := s.tenant
		q := inbox.NewQueue("forgotten")
		t.Cleanup(q.ShutDown)
		claim := gen.Claim("c", gen.OfClass("internal"))
		if err := tenant.Client.Create(t.Context(), bare(claim)); err != nil {
			t.Fatal(err)
		}
		handler := s.onClaim("tenant", tenant)
		s.Releases = hinted{}
		s.Reconciler.Ledger.Blocks = &interrupted{Blocks: s.ledger, by: func() {
			tenant.denies = true
			if !deleted {
				return
			}
			if err := tenant.Client.Delete(t.Context(), claim); err != nil {
				t.Error(err)
			}
			handler.Delete(t.Context(), event.DeleteEvent{Object: claim}, q)
		}}
		if _, err := s.Reconcile(t.Context(), requestIn("tenant", "c")); err != nil {
			t.Fatal(err)
		}
		if denied := s.memory.markedGone(claim.UID); denied == deleted || deleted && len(s.memory.claims) > 0 {
			t.Errorf("deleted: %t; of claims is known %+v; want nothing of a deleted one, and that the server denied one that is shown",
				deleted, s.memory.claims)
		}
	}
}
