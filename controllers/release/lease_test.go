package release

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// retainedFor is a promise whose claim, of UID "a", was created, recorded, and deleted with a lease.
func retainedFor(t *testing.T, lease time.Duration) (p *promiseScene, expired *[]string) {
	t.Helper()
	p, expired = newPromise(t, ipamv1alpha1.ReclaimRetain), new([]string)
	p.retention.lease = func(context.Context, ledger.Block) (time.Duration, error) { return lease, nil }
	p.Expired = func(_ context.Context, h ledger.Holder, last *ipamv1alpha1.IPAllocation) {
		*expired = append(*expired, string(h.Claim)+" "+last.Status.AllocatedCIDR)
	}
	p.records()
	p.settled(p.goes(), nil)
	p.forget("a", p.seen("a").number)
	p.wantBlocks("10.0.0.0/28 retained a")
	return p, expired
}

// block is that of the claim of UID "a".
func (p *promiseScene) block() ledger.Block {
	p.Helper()
	b, ok, err := p.ledger.Lookup(p.Context(), "a")
	if err != nil || !ok {
		p.Fatalf("Lookup(a) = %t, %v", ok, err)
	}
	return b
}

// causes returns why the tenures of the ledger's history have ended.
func (p *promiseScene) causes() (causes []ledger.Cause) {
	p.Helper()
	must.Get(p.reader.Tenures(p.Context(), netip.Prefix{}, func(h ledger.Tenure, err error) bool {
		if err != nil {
			p.Fatal(err)
		}
		if h.Cause != "" {
			causes = append(causes, h.Cause)
		}
		return true
	}))(p)
	return causes
}

// A retained block is released when its lease is over, and not before. What its class and pool say by
// then is no matter, nor is what a second look says.
func TestLease(t *testing.T) {
	t.Parallel()
	p, expired := retainedFor(t, 10*time.Minute)
	holder := holderOf(gen.Claim("c", gen.UID("a")))
	until := p.block().Until
	if least := p.clock.Now().Add(10 * time.Minute); until.Before(least) || until.After(least.Add(time.Second)) || until.Nanosecond() != 0 {
		t.Errorf("the lease ends at %s, want a whole second from %s on", until, least)
	}
	if kept := p.kept(); kept.Status.Expires == nil || !kept.Status.Expires.Time.Equal(until) {
		t.Errorf("the record expires at %v, want %s", kept.Status.Expires, until)
	}
	p.retention.lease = func(context.Context, ledger.Block) (time.Duration, error) { return time.Second, nil }
	p.clock.SetTime(until.Add(-time.Millisecond))
	for range 2 {
		p.settles(holder, live.Gone, nil)
		p.wantBlocks("10.0.0.0/28 retained a")
	}
	p.clock.SetTime(until)
	for _, verdict := range []live.Verdict{live.Unknown, live.Alive, live.Unbound} {
		p.settles(holder, verdict, nil)
		p.wantBlocks("10.0.0.0/28 retained a")
	}
	if p.kept() == nil || len(*expired) != 0 {
		t.Error("the record is gone in doubt")
	}
	p.settled(holder, nil)
	p.wantBlocks()
	if got := p.causes(); !slices.Equal(got, []ledger.Cause{ledger.CauseLeaseExpired}) {
		t.Errorf("the history has %v, want that the lease has expired", got)
	}
	if p.kept() != nil || len(*expired) != 1 || (*expired)[0] != "a 10.0.0.0/28" {
		t.Errorf("the record is %v, told is %q; want no record, and that a had 10.0.0.0/28", p.kept(), *expired)
	}
}

// Without a lease, a block is retained until somebody deletes its record.
func TestLease_None(t *testing.T) {
	t.Parallel()
	p, _ := retainedFor(t, 0)
	if until := p.block().Until; !until.IsZero() || p.kept().Status.Expires != nil {
		t.Errorf("the lease ends at %s, and the record expires at %s; want none", until, p.kept().Status.Expires)
	}
	p.clock.SetTime(p.clock.Now().Add(1000 * time.Hour))
	p.settles(holderOf(gen.Claim("c", gen.UID("a"))), live.Gone, nil)
	p.wantBlocks("10.0.0.0/28 retained a")
}

// A CREATE that was answered with the retained block may still succeed: neither the end of the lease
// nor the deletion of the record frees it before. A claim that came with it gets it.
func TestLease_WhileACreateIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		deleted, comes bool
	}{
		"the lease ends, nobody comes":           {},
		"the lease ends, the claim comes":        {comes: true},
		"the record is deleted, nobody comes":    {deleted: true},
		"the record is deleted, the claim comes": {deleted: true, comes: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := retainedFor(t, time.Minute)
			former := holderOf(gen.Claim("c", gen.UID("a")))
			promised := must.Get(p.ledger.Retained().Promise(t.Context(), p.block(), promise.Grace))(t)
			p.reserved = promised
			later := p.answered("b")
			p.clock.SetTime(promised.BoundAt.Add(promise.Grace - time.Second)) // the lease is over
			if tt.deleted {
				must.Do(t, p.workspace.Delete(t.Context(), p.kept()))
			}
			if p.settles(former, live.Gone, nil) {
				t.Error("settled while the CREATE may still succeed")
			}
			p.wantBlocks("10.0.0.0/28 retained a")
			if !tt.deleted && p.kept() == nil {
				t.Error("the record is gone while the CREATE may still succeed")
			}
			p.clock.SetTime(promised.BoundAt.Add(promise.Grace))
			if !tt.comes {
				later = nil
			}
			p.settles(former, live.Gone, later)
			if tt.comes {
				p.wantBlocks("10.0.0.0/28 bound b")
				return
			}
			p.wantBlocks()
		})
	}
}

// The claim may go before its reconcile. Then the block goes as that of any other claim, and the
// record of the former one is gone before.
func TestLease_ReusedAndDeletedAtOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy ipamv1alpha1.ReclaimPolicy
		moved  bool // the controller was killed after the ledger
		want   []string
	}{
		"Delete, told alone":    {ipamv1alpha1.ReclaimDelete, false, nil},
		"Delete, in the ledger": {ipamv1alpha1.ReclaimDelete, true, nil},
		"Retain, told alone":    {ipamv1alpha1.ReclaimRetain, false, []string{"10.0.0.0/28 retained b"}},
		"Retain, in the ledger": {ipamv1alpha1.ReclaimRetain, true, []string{"10.0.0.0/28 retained b"}},
		"nothing, told alone":   {"", false, nil}, // not the word of the former claim
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := retainedFor(t, time.Hour)
			promised := must.Get(p.ledger.Retained().Promise(t.Context(), p.block(), promise.Grace))(t)
			p.reserved = promised
			claim := p.answered("b")
			claim.Spec.ReclaimPolicy = tt.policy
			if tt.moved {
				must.Get(p.ledger.Retained().Reuse(t.Context(), promised, allocator.Successor{Holder: holderOf(claim), Answered: promise.Answered(claim)}))(t)
			}
			p.Deleted(holderOf(claim), claim, nil)
			p.settled(holderOf(claim), nil)
			p.wantBlocks(tt.want...)
			kept := p.kept()
			if tt.want == nil && kept != nil {
				t.Errorf("the record is %+v, want none", kept)
			}
			if tt.want == nil {
				return
			}
			if _, uid := kept.HeldBy(); uid != "b" || kept.Status.Expires == nil {
				t.Errorf("the record is that of %s, and expires at %v; want that of b, with an end", uid, kept.Status.Expires)
			}
		})
	}
}

// A list left out the claim: nothing shows that the server ever knew it. So the block stays with the former claim, whose record
// is there.
func TestLease_ReusedAndMissed(t *testing.T) {
	t.Parallel()
	p, _ := retainedFor(t, time.Hour)
	until := p.block().Until
	p.reserved = must.Get(p.ledger.Retained().Promise(t.Context(), p.block(), promise.Grace))(t)
	claim := p.answered("b")
	p.Missed(holderOf(claim), claim)
	p.settled(holderOf(claim), nil)
	p.wantBlocks("10.0.0.0/28 retained a")
	if now := p.block().Until; !now.Equal(until) || p.kept() == nil {
		t.Errorf("the lease ends at %s, want %s; the record is %v", now, until, p.kept())
	}
}

// A ledger restored from an older copy has the block bound, with the policy of that time. Its retained
// record says that it is retained, and until when.
func TestLease_OfAnOlderLedger(t *testing.T) {
	t.Parallel()
	for _, policy := range []ipamv1alpha1.ReclaimPolicy{ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain} {
		p := newPromise(t, policy)
		p.confirm(p.answered("a"))
		kept := gen.Allocation("c", "p", "10.0.0.0/28", gen.Retained())
		until := time.Now().Add(time.Hour).Truncate(time.Second)
		kept.Status.Expires = new(metav1.NewTime(until))
		kept.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "c/a"}
		must.Do(t, p.workspace.Create(t.Context(), kept))
		p.settles(holderOf(gen.Claim("c", gen.UID("a"))), live.Gone, nil)
		if b := p.block(); b.State != ledger.Retained || !b.Until.Equal(until) {
			t.Errorf("%s: the block is %+v; want it retained until %s, as its record says", policy, b, until)
		}
	}
}

// due is a ledger in which leases end.
type due struct {
	news  chan struct{}
	ends  map[ledger.ClaimID]time.Time
	asked chan time.Time
}

func (d *due) News() <-chan struct{} { return d.news }

func (d *due) Due(now time.Time) (holders []ledger.Holder, next time.Time) {
	for claim, end := range d.ends {
		if !end.After(now) {
			holders = append(holders, ledger.Holder{Claim: claim})
			delete(d.ends, claim)
		} else if next.IsZero() || end.Before(next) {
			next = end
		}
	}
	d.asked <- now
	return holders, next
}

// What has ended before the start is hinted at then, and everything else when it ends. News of a
// sooner end cut the wait short.
func TestExpiry(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	start := clock.Now()
	alloc := &due{news: make(chan struct{}), asked: make(chan time.Time), ends: map[ledger.ClaimID]time.Time{
		"missed": start.Add(-time.Hour), "soon": start.Add(20 * time.Second), "late": start.Add(time.Hour),
	}}
	hinted := make(chan ledger.ClaimID, 8)
	e := &Expiry{Leases: alloc, Clock: clock, Suspect: func(h ledger.Holder) { hinted <- h.Claim }}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- e.Start(ctx) }()
	<-alloc.asked
	want(t, hinted, "missed")
	step := func(d time.Duration) {
		for !clock.HasWaiters() { // until it waits
			if t.Context().Err() != nil {
				t.Fatal("it does not wait")
			}
		}
		clock.Step(d)
		<-alloc.asked
	}
	step(20 * time.Second)
	want(t, hinted, "soon")
	alloc.ends["sooner"] = clock.Now()
	alloc.news <- struct{}{}
	<-alloc.asked
	want(t, hinted, "sooner")
	step(longest) // the time of day may have been set
	if len(hinted) != 0 {
		t.Errorf("hinted at %s, whose lease is not over", <-hinted)
	}
	cancel()
	must.Do(t, <-over)
}

func want(t *testing.T, hinted <-chan ledger.ClaimID, claim ledger.ClaimID) {
	t.Helper()
	select {
	case got := <-hinted:
		if got != claim {
			t.Errorf("hinted at %s, want %s", got, claim)
		}
	case <-t.Context().Done():
		t.Fatalf("no hint at %s", claim)
	}
}
