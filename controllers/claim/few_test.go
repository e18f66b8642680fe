package claim

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
)

// asked counts how often a ledger is asked for a block.
type asked struct {
	Ledger
	binds int
}

func (a *asked) Bind(ctx context.Context, r allocator.Request) (allocator.Block, error) {
	a.binds++
	return a.Ledger.Bind(ctx, r)
}

// A workspace may have any number of full pools. A claim asks and waits for a bounded number of them, says so, and finds
// the one that has room, wherever it comes in their order.
func TestReconcile_AsksFewOfManyPools(t *testing.T) {
	t.Parallel()
	const more = 6
	world := []client.Object{gen.Class("internal", gen.DefaultLength(28))}
	for n := range mostAsked + more {
		cidr := ipamv1alpha1.CIDR(fmt.Sprintf("10.0.%d.0/28", n))
		world = append(world, readyPool(fmt.Sprintf("p%03d", n), cidr, gen.Backs("internal"), gen.Visible(ipamv1alpha1.VisibilityPlatform)))
	}
	s := newScene(t, allocator.Options{}, world, gen.Claim("c", gen.OfClass("internal")))
	counted := &asked{Ledger: s.ledger}
	s.Reconciler.ledger, s.queue = counted, inbox.New(s.directory).Claims
	t.Cleanup(s.queue.ShutDown)
	for n := range mostAsked + more {
		id := fmt.Sprintf("taker%d", n)
		_, err := s.ledger.Bind(t.Context(), allocator.Request{
			Pool: allocator.PoolID(fmt.Sprintf("uid-of-p%03d", n)), Length: 28, Exact: netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/28", n)),
			Holder: allocator.Holder{Claim: allocator.ClaimID(id), Cluster: "other", Namespace: "default", Name: id},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got := s.reconcile("c").Status.Conditions[0]
	if want := fmt.Sprintf("%d pools were asked, and %d were not", mostAsked, more); got.Reason != string(ipamv1alpha1.ReasonPoolExhausted) || !strings.HasPrefix(got.Message, want) {
		t.Errorf("the claim says %s: %.80q, want %s: %q", got.Reason, got.Message, ipamv1alpha1.ReasonPoolExhausted, want)
	}
	if counted.binds != mostAsked {
		t.Errorf("%d pools were asked, want %d", counted.binds, mostAsked)
	}
	if err := s.ledger.Release(t.Context(), allocator.ClaimID(fmt.Sprintf("taker%d", mostAsked+more-1))); err != nil {
		t.Fatal(err)
	}
	counted.binds = 0
	if claim := s.reconcile("c"); claim.Status.Phase != ipamv1alpha1.ClaimBound || counted.binds != 1 {
		t.Errorf("the claim is %s after %d pools were asked, want %s by the one that has room", claim.Status.Phase, counted.binds, ipamv1alpha1.ClaimBound)
	}
}
