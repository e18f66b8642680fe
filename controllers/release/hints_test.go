package release

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// Hints need no engaged workspace: the manager of this test has none, nor a server. A hint that comes before the
// manager runs is settled once it runs.
func TestHints_NeedNoWorkspace(t *testing.T) {
	mgr := must.Get(manager.New(&rest.Config{Host: "http://127.0.0.1:0"}, manager.Options{
		Scheme:         runtime.NewScheme(),
		Metrics:        metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
	}))(t)
	s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
	s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
	c := must.Get(New(mgr, complete(Options{Ledger: all(s.ledger), Oracle: s.oracle})))(t)
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
	must.Do(t, <-ended)
}

// While an earlier hint at a claim is settled, a server still shows the claim, and then the claim is deleted. The
// deletion, with the claim's new policy Retain, is not forgotten with the earlier hint: the block is retained.
func TestHints_KeepADeletionThatComesWhileAnotherHintIsSettled(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	claim := p.answered("a")
	claim.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain // changed last; the ledger does not have it yet
	h := holderOf(claim)
	p.records()
	p.Missed(h, claim)
	p.oracle.asked = func() { p.oracle.asked = nil; p.Deleted(h, claim, nil) }
	for _, answer := range []live.Answer{
		{Verdict: live.Alive, Client: p.workspace, Object: claim}, {Verdict: live.Gone, Client: p.workspace},
	} {
		p.oracle.answer = answer
		must.Get(p.Reconcile(t.Context(), h))(t)
	}
	p.wantBlocks(p.is(ledger.Retained))
	if n := len(p.deleted); n != 0 {
		t.Errorf("%d claims are remembered after their hints were settled, want 0", n)
	}
}

// A write of a claim may be answered with a 404 after the claim's deletion was seen. The hint of the deletion is kept
// then, and the hint of the 404 does not replace it.
func TestHints_KeepTheDeletionIfA404Follows(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	claim := p.answered("a")
	claim.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
	p.records()
	p.Deleted(holderOf(claim), claim, nil)
	p.Missed(holderOf(claim), claim)
	p.settles(holderOf(claim), live.Gone, nil)
	p.wantBlocks(p.is(ledger.Retained))
}

// SawDeleted is true for a claim whose deletion was seen, until its release succeeds: the sweep leaves the claim to
// that release. It is false for a claim that a list left out, because that claim may exist.
func TestSawDeleted_IsTrueUntilTheReleaseSucceeds(t *testing.T) {
	t.Parallel()
	p := newPromise(t, ipamv1alpha1.ReclaimDelete)
	deleted, missed := p.answered("a"), gen.Claim("b")
	missed.UID = "b"
	h := holderOf(deleted)
	p.Missed(holderOf(missed), missed)
	if p.SawDeleted("b") || p.SawDeleted(h.Claim) {
		t.Error("SawDeleted = true for a claim that a list left out, or that nothing is known of")
	}
	p.Deleted(h, deleted, nil)
	p.oracle.err = errors.New("the shard is away")
	if _, err := p.Reconcile(t.Context(), h); err == nil || !p.SawDeleted(h.Claim) {
		t.Errorf("SawDeleted = %t after a release that failed with %v, want true", p.SawDeleted(h.Claim), err)
	}
	p.oracle.err, p.oracle.answer = nil, live.Answer{Verdict: live.Gone, Client: p.workspace}
	must.Get(p.Reconcile(t.Context(), h))(t)
	if p.SawDeleted(h.Claim) {
		t.Error("SawDeleted = true after the release, want false")
	}
}

// The departure of a workspace is forgotten a day after the last call of HasDeparted for it. HasDeparted is called for
// each workspace that has a block or a hint.
func TestDeparted_IsForgottenAfterADay(t *testing.T) {
	s := newScene(t)
	s.Departed("asked-for")
	const aDay = 10
	for day := range 30 {
		for i := range aDay {
			s.Departed(ledger.ClusterName(fmt.Sprint(day, "/", i)))
		}
		s.clock.SetTime(s.clock.Now().Add(24 * time.Hour))
		if !s.HasDeparted("asked-for") {
			t.Fatalf("HasDeparted = false on day %d for a workspace that is asked for every day", day)
		}
	}
	if n := len(s.departed); n > 2*aDay+1 {
		t.Errorf("%d workspaces are remembered of %d that departed in 30 days, want those of the last two days", n, 30*aDay)
	}
	s.Arrived("asked-for")
	if s.HasDeparted("asked-for") || s.HasDeparted("never-heard-of") {
		t.Error("HasDeparted = true for a workspace that has arrived, or that never departed")
	}
}

// If a workspace is bound again before its old claims are asked for, those claims went with the former binding. Their
// blocks are released even if their policy is Retain. They are released, too, if a list left the claims out and the
// departure was seen. The claims of the present binding are released as usual.
func TestDeparted_ReleasesTheClaimsOfAFormerBinding(t *testing.T) {
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		missed, departs bool
		served          time.Time
		recorded        time.Time // when its record was stored; zero: there is none
		want            []ledger.BlockState
	}{
		"seen deleted":                          {served: created.Add(time.Second), departs: true},
		"seen deleted, the binding not seen":    {served: created.Add(time.Second)},
		"missed":                                {served: created.Add(time.Second), departs: true, missed: true},
		"missed, the binding not seen to go":    {served: created.Add(time.Second), missed: true, want: []ledger.BlockState{ledger.Bound}},
		"made after the binding":                {served: created, departs: true, recorded: created, want: []ledger.BlockState{ledger.Retained}},
		"made after the binding, unpublished":   {served: created, departs: true},
		"made after the binding, and missed":    {served: created, departs: true, missed: true, want: []ledger.BlockState{ledger.Bound}},
		"recorded under the next binding":       {served: created.Add(time.Minute), recorded: created.Add(time.Minute)},
		"recorded under its own binding":        {served: created.Add(time.Minute), recorded: created.Add(59 * time.Second), want: []ledger.BlockState{ledger.Retained}},
		"recorded late, by a clock that is off": {served: created.Add(2 * time.Second), recorded: created.Add(time.Minute), want: []ledger.BlockState{ledger.Retained}},
		"on the platform, which has no binding": {recorded: created, want: []ledger.BlockState{ledger.Retained}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPromise(t, ipamv1alpha1.ReclaimRetain)
			claim := p.answered("a")
			claim.CreationTimestamp.Time = created
			if !test.recorded.IsZero() {
				own := p.recordFor(claim.UID)
				own.CreationTimestamp.Time = test.recorded
				must.Do(t, p.workspace.Create(t.Context(), own))
			}
			if test.departs {
				p.Departed("w")
				p.Arrived("w")
			}
			if test.missed {
				p.Missed(holderOf(claim), claim)
			} else {
				p.Deleted(holderOf(claim), claim, nil)
			}
			p.oracle.answer = live.Answer{Verdict: live.Gone, Client: p.workspace, Served: test.served}
			if settled, err := p.Settle(t.Context(), holderOf(claim)); err != nil || !settled {
				t.Fatalf("Settle = %t, %v", settled, err)
			}
			var want []string
			for _, state := range test.want {
				want = append(want, p.is(state))
			}
			p.wantBlocks(want...)
			records := &ipamv1alpha1.IPAllocationList{}
			must.Do(t, p.workspace.List(t.Context(), records))
			if retained := slices.Contains(test.want, ledger.Retained); len(records.Items) > 0 != retained {
				t.Errorf("there are %d records, want one: %t", len(records.Items), retained)
			}
		})
	}
}

// Under the next binding of its workspace, a claim of the same name may show the block of the former claim. Then the
// block stays: the reconcile of the new claim takes it over. If the new claim shows the same prefix of another pool,
// the block is freed: in an address domain, the new claim waits for these addresses itself.
func TestSettle_KeepsABlockThatANewClaimShowsAfterRebinding(t *testing.T) {
	for pool, settles := range map[string]bool{"p": false, "another": true} {
		p := newPromise(t, ipamv1alpha1.ReclaimRetain)
		gone := p.goes()
		p.pass(2 * promise.Grace)
		later := p.answered("b")
		later.Status.AllocationID, later.Status.PoolRef.Name = "", pool
		p.oracle.answer = live.Answer{Verdict: live.Gone, Client: p.workspace, Object: later, Served: time.Now()}
		if settled, err := p.Settle(t.Context(), gone); err != nil || settled != settles {
			t.Fatalf("Settle = %t, %v; want settled = %t, with pool %s", settled, err, settles, pool)
		}
		if !settles {
			p.wantBlocks(p.is(ledger.Bound))
		}
	}
}

// A workspace that deletes many claims at once delays each release of another workspace by at most one of its own.
func TestHints_LetWorkspacesTakeTurns(t *testing.T) {
	hints := NewHints(clocktesting.NewFakePassiveClock(time.Now()))
	defer hints.queue.ShutDown()
	for _, name := range []string{"a", "b", "c"} {
		hints.Suspect(ledger.Holder{Claim: ledger.ClaimID(name), Cluster: "storm", Namespace: "default", Name: name})
	}
	hints.Suspect(ledger.Holder{Claim: "d", Cluster: "calm", Namespace: "default", Name: "d"})
	var order []ledger.ClusterName
	for range 4 {
		h, _ := hints.queue.Get()
		hints.queue.Done(h)
		order = append(order, h.Cluster)
	}
	if want := []ledger.ClusterName{"storm", "calm", "storm", "storm"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}
