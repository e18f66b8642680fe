package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// After a record was created, a cache that shows the same as before is not trusted for cacheLag. It may show no record,
// or the deleted record of a former claim. A cache that shows another record is trusted.
func TestMemory_DistrustsTheCacheAfterACreate(t *testing.T) {
	for _, before := range []string{"", "1"} {
		m, clock := newMemory()
		if m.hides("uid", shownSlot(before)) {
			t.Errorf("before was version %q: the cache is not believed, and nothing was written", before)
		}
		m.made("uid", shownSlot(before))
		if !m.hides("uid", shownSlot(before)) {
			t.Errorf("before was version %q: the cache is believed that does not show yet what was written", before)
		}
		if m.hides("uid", shownSlot("2")) {
			t.Errorf("before was version %q: the cache is not believed when it shows another record than before", before)
		}
		clock.SetTime(clock.Now().Add(cacheLag))
		if m.hides("uid", shownSlot(before)) {
			t.Errorf("before was version %q: the cache is never believed again", before)
		}
	}
	m, _ := newMemory()
	m.made("uid", shownSlot("1"))
	if m.found("uid"); m.hides("uid", shownSlot("1")) {
		t.Error("the cache is not believed after the record was seen")
	}
}

// If a record cannot be created because its name is taken, the cache has cacheLag to show the other record. Then it is
// trusted.
func TestMemory_DistrustsTheCacheWhileANameIsTaken(t *testing.T) {
	m, clock := newMemory()
	m.made("uid", shownSlot(""))
	clock.SetTime(clock.Now().Add(time.Hour)) // the server was away
	if !m.met("uid", shownSlot("")) || !m.hides("uid", shownSlot("")) {
		t.Error("the cache gets no time to show what is in the way")
	}
	clock.SetTime(clock.Now().Add(cacheLag))
	if m.met("uid", shownSlot("")) || m.hides("uid", shownSlot("")) {
		t.Error("what the cache does not show for so long is no lag")
	}
	if !m.met("uid", shownSlot("1")) {
		t.Error("the cache that shows something new gets no time to show more")
	}
}

// A server that was restored to the version before our last write shows that version for ever. The claim is requeued,
// and after cacheLag the cache is trusted.
func TestMemory_TrustsARestoredVersionAfterTheCacheLag(t *testing.T) {
	m, clock := newMemory()
	m.wrote("uid", "7")
	if !m.outdated("uid", "7") {
		t.Error("the cache is believed that does not show our write yet")
	}
	clock.SetTime(clock.Now().Add(cacheLag))
	if m.outdated("uid", "7") {
		t.Error("the cache is never believed again")
	}
	if result, err := requeueFor(errWritten); err != nil || result.RequeueAfter != cacheLag {
		t.Errorf("requeue = %+v, %v; want a look after %s", result, err, cacheLag)
	}
}

func newMemory() (*memory, *testclock.FakePassiveClock) {
	clock := testclock.NewFakePassiveClock(time.Now())
	return &memory{clock: clock}, clock
}

// shownSlot returns a slot with a record of this resourceVersion; empty: without a record.
func shownSlot(version string) record.Slot {
	if version == "" {
		return record.Slot{Name: "alloc-1"}
	}
	r := &ipamv1alpha1.IPAllocation{}
	r.ResourceVersion = version
	return record.Slot{Name: "alloc-1", Record: r}
}

// If the record of a claim with another name was in the way, the claim's own record gets another name. Under that name
// the cache is trusted.
func TestMemory_TrustsTheCacheOnceTheRecordGetsAnotherName(t *testing.T) {
	m, _ := newMemory()
	m.met("uid", shownSlot(""))
	if m.hides("uid", record.Slot{Name: "alloc-2"}) {
		t.Error("hides(alloc-2) = true after alloc-1 was in the way; want false")
	}
}

// withdrawals counts how often a claim leaves the waiting lists of a ledger.
type withdrawals struct {
	views.Waits
	count int
}

func (w *withdrawals) Withdraw(ledger.ClaimID) { w.count++ }

// servers plays releases that say whether a claim is gone.
type servers struct {
	Releases
	gone   bool
	err    error
	asked  int
	missed bool
}

func (s *servers) Missed(ledger.Holder, *ipamv1alpha1.IPClaim) { s.missed = true }

func (s *servers) Gone(context.Context, ledger.Holder) (bool, error) {
	s.asked++
	return s.gone, s.err
}

// confirmAlive asks the servers about a claim that a server did not know. If the claim is gone, it stops waiting. It is
// reported as missed if cacheLag has passed. If the claim exists, it counts as stored again.
func TestConfirmAlive_AsksTheServersAboutAnUnknownClaim(t *testing.T) {
	t.Parallel()
	fault := errors.New("no answer")
	for _, tt := range []struct {
		name      string
		denied    time.Duration // ago
		servers   servers
		want      error
		asked     int
		withdrawn int
		denies    bool // afterwards
		missed    bool
	}{
		{name: "gone", denied: time.Second, servers: servers{gone: true}, want: errGone, asked: 1, withdrawn: 1, denies: true},
		{name: "gone, and shown for long", denied: cacheLag, servers: servers{gone: true}, want: errGone, asked: 1, withdrawn: 1, denies: true, missed: true},
		{name: "there after all", denied: cacheLag, asked: 1},
		{name: "nobody knows", denied: cacheLag, servers: servers{err: fault}, want: fault, asked: 1, denies: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ledger, servers := &withdrawals{}, &tt.servers
			r, claim := &Reconciler{Options: Options{Ledger: views.Ledger{Waits: ledger}, Releases: servers}}, gen.Claim("c")
			p := &pass{r: r, claim: claim, waits: r.waiter(requestIn("tenant", "c"), claim)}
			now := testclock.NewFakePassiveClock(time.Now())
			p.r.memory.clock = now
			p.r.memory.markGone(p.claim.UID)
			now.SetTime(now.Now().Add(tt.denied))
			must.Be(t, p.confirmAlive(t.Context()), tt.want)
			denies, _ := p.r.memory.markedGone(p.claim.UID)
			if servers.asked != tt.asked || ledger.count != tt.withdrawn || denies != tt.denies || servers.missed != tt.missed {
				t.Errorf("asked %d times, withdrawn %d times, denied %t, missed %t; want %d, %d, %t, %t",
					servers.asked, ledger.count, denies, servers.missed, tt.asked, tt.withdrawn, tt.denies, tt.missed)
			}
		})
	}
}

// interrupted is a ledger that calls the function in its field by after the first Bind.
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

// A claim is deleted during its pass, which ends after the event of the deletion. The memory of the claim is forgotten,
// and the claim gets no record. The releases get a hint about the block that was bound too late: as deleted if the
// deletion was seen, and otherwise as missed. If the cache still shows the claim, its memory and record stay.
func TestReconcile_ForgetsAClaimThatGoesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		event           *event.DeleteEvent // nil: the cache still shows the claim
		deleted, missed int
	}{
		"its deletion is seen":   {event: &event.DeleteEvent{}, deleted: 2},
		"a list leaves it out":   {event: &event.DeleteEvent{DeleteStateUnknown: true}, missed: 2},
		"the cache still has it": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, allocator.Options{}, offered())
			tenant := s.tenant
			q := inbox.NewQueue("forgotten")
			t.Cleanup(q.ShutDown)
			claim := gen.Claim("c", gen.OfClass("internal"))
			must.Do(t, tenant.Client.Create(t.Context(), bare(claim)))
			handler := s.onClaim("tenant", tenant)
			s.Ledger.Blocks = &interrupted{Blocks: s.ledger, by: func() {
				tenant.denies = true
				if tt.event == nil {
					return
				}
				if err := tenant.Client.Delete(t.Context(), claim); err != nil {
					t.Error(err)
				}
				tt.event.Object = claim
				handler.Delete(t.Context(), *tt.event, q)
			}}
			must.Get(s.Reconcile(t.Context(), requestIn("tenant", "c")))(t)
			gone := tt.event != nil
			if denied, _ := s.memory.markedGone(claim.UID); denied == gone || gone && len(s.memory.claims) > 0 {
				t.Errorf("of claims is known %+v; want nothing of one that is gone, and that the server denied one that is shown", s.memory.claims)
			}
			records := &ipamv1alpha1.IPAllocationList{}
			must.Do(t, tenant.Client.List(t.Context(), records))
			if recorded := len(records.Items) > 0; recorded == gone {
				t.Errorf("a record is stored: %t", recorded)
			}
			if len(s.servers.deleted) != tt.deleted || len(s.servers.missed) != tt.missed {
				t.Errorf("hinted as deleted: %q, as missed: %q; want %d and %d", s.servers.deleted, s.servers.missed, tt.deleted, tt.missed)
			}
		})
	}
}
