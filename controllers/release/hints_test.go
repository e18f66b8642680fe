package release

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Hints need no engaged workspace: the manager here has none, nor a server. One that
// comes before the manager runs is kept, and is settled once it does.
func TestHints_NeedNoWorkspace(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:0"}, manager.Options{
		Scheme:         runtime.NewScheme(),
		Metrics:        metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
	s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
	c, err := New(mgr, complete(Options{Ledger: all(s.ledger), Oracle: s.oracle}))
	if err != nil {
		t.Fatal(err)
	}
	c.Deleted(s.holder, gen.Claim("c"), nil)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	const soon = 20 * time.Second
	select {
	case <-s.ledger.done:
	case <-time.After(soon):
		t.Errorf("the block is not freed after %s", soon)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A claim is deleted while an earlier hint at it is settled: a server still said that it is alive. What was
// seen of the claim then is not forgotten with the earlier hint.
func TestHints_ADeletionWhileAnotherIsSettled(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	claim := p.answered("a")
	claim.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain // changed last, which the ledger has not followed
	h := holderOf(claim)
	p.Missed(h, claim)
	p.oracle.asked = func() { p.oracle.asked = nil; p.Deleted(h, claim, nil) }
	for _, answer := range []live.Answer{
		{Verdict: live.Alive, Client: p.workspace, Object: claim}, {Verdict: live.Gone, Client: p.workspace},
	} {
		p.oracle.answer = answer
		if _, err := p.Reconcile(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	p.wantBlocks("10.0.0.0/28 retained a")
	if n := len(p.deleted); n != 0 {
		t.Errorf("%d claims are remembered after their hints were settled, want 0", n)
	}
}

// A write of a claim may be answered with a 404 after its deletion was seen. That hint says less.
func TestHints_A404AfterTheDeletion(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	claim := p.answered("a")
	claim.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
	p.Deleted(holderOf(claim), claim, nil)
	p.Missed(holderOf(claim), claim)
	p.settles(holderOf(claim), live.Gone, nil)
	p.wantBlocks("10.0.0.0/28 retained a")
}
