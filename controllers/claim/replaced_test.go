package claim

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
)

// meanwhile is a ledger in which something happens after the first Bind has decided.
type meanwhile struct {
	views.Blocks
	happens func()
}

func (m *meanwhile) Bind(ctx context.Context, r ledger.Request) (ledger.Block, error) {
	block, err := m.Blocks.Bind(ctx, r)
	if happens := m.happens; happens != nil {
		m.happens = nil
		happens()
	}
	return block, err
}

func (*alive) Deleted(ledger.Holder, *ipamv1alpha1.IPClaim, *ipamv1alpha1.IPAllocation) {}

// TestWaiting_Replaced: a claim that waits, and whose name another claim has by now, leaves the ledger's
// waiting lists, also if it was replaced during the pass that entered it there.
func TestWaiting_Replaced(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	if _, err := s.ledger.Bind(t.Context(), ledger.Request{
		Pool: "uid-of-p", Length: 24, Holder: ledger.Holder{Claim: "x", Cluster: "tenant", Namespace: "default", Name: "x"},
	}); err != nil {
		t.Fatal(err)
	}
	events := inbox.NewQueue("replaced")
	defer events.ShutDown()
	old := func(uid types.UID, options ...gen.ClaimOption) *ipamv1alpha1.IPClaim {
		claim := gen.Claim("c", append(options, gen.UID(uid))...)
		claim.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
		return claim
	}
	first, second := old("a", gen.OfClass("internal"), gen.Length(24)), old("b", gen.FromPool("none"))
	cache, handler := s.tenant.Client, s.onClaim("tenant", s.tenant)
	if err := cache.Create(t.Context(), bare(first)); err != nil {
		t.Fatal(err)
	}
	handler.Create(t.Context(), event.CreateEvent{Object: first}, events)
	waits := noteWaits(&s.Reconciler.Ledger)
	s.Reconciler.Ledger.Blocks = &meanwhile{Blocks: s.ledger, happens: func() {
		if err := cache.Delete(t.Context(), first); err != nil {
			t.Error(err)
		}
		if err := cache.Create(t.Context(), bare(second)); err != nil {
			t.Error(err)
		}
		gone := first.DeepCopy()
		gone.ResourceVersion = "77"
		handler.Delete(t.Context(), event.DeleteEvent{Object: gone}, events)
		handler.Create(t.Context(), event.CreateEvent{Object: second}, events)
	}}
	for range 2 { // one pass for each: the events came together
		_, _ = s.Reconcile(t.Context(), requestIn("tenant", "c")) // that the first is gone is no matter here
	}
	if n := waits.count("uid-of-p"); n != 0 {
		t.Errorf("%d claims wait for room in the pool, want none: one is gone, and its successor asks for another pool", n)
	}
}
