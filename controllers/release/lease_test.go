package release

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// retainedFor makes a scene in which the claim with the UID a was created, recorded and deleted, and its block retained
// with this lease. expired lists the calls of Expired.
func retainedFor(t *testing.T, lease time.Duration) (p *promiseScene, expired *[]string) {
	t.Helper()
	p, expired = newPromise(t, ipamv1alpha1.ReclaimRetain), new([]string)
	p.retention.lease = func(context.Context, ledger.Block) (time.Duration, error) { return lease, nil }
	p.Expired = func(_ context.Context, h ledger.Holder, last *ipamv1alpha1.IPAllocation) {
		*expired = append(*expired, string(h.Claim)+" "+last.Status.AllocatedCIDR)
	}
	p.records()
	p.settled(p.goes(), nil)
	p.forget(p.given.Holder.Claim, p.seen(p.given.Holder.Claim).number)
	p.wantBlocks(p.is(ledger.Retained))
	return p, expired
}

// block reads the scene's block from the ledger.
func (p *promiseScene) block() ledger.Block {
	p.Helper()
	b, ok, err := p.ledger.Lookup(p.Context(), p.given.Holder.Claim)
	if err != nil || !ok {
		p.Fatalf("Lookup(%s) = %t, %v", p.given.Holder.Claim, ok, err)
	}
	return b
}

// causes returns the cause of each ended tenure in the ledger's history.
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

// A retained block is released when its lease is over, and not before. A shorter lease that is set meanwhile does not
// change that time, nor does a second hint. In doubt the block stays even after that time.
func TestLease_EndsAtItsTime(t *testing.T) {
	t.Parallel()
	p, expired := retainedFor(t, 10*time.Minute)
	holder := p.given.Holder
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
		p.wantBlocks(p.is(ledger.Retained))
	}
	p.clock.SetTime(until)
	for _, verdict := range []live.Verdict{live.Unknown, live.Alive, live.Unbound} {
		p.settles(holder, verdict, nil)
		p.wantBlocks(p.is(ledger.Retained))
	}
	if p.kept() == nil || len(*expired) != 0 {
		t.Error("the record is gone in doubt")
	}
	p.settled(holder, nil)
	p.wantBlocks()
	if got := p.causes(); !slices.Equal(got, []ledger.Cause{ledger.CauseLeaseExpired}) {
		t.Errorf("the history has %v, want that the lease has expired", got)
	}
	if p.kept() != nil || len(*expired) != 1 || (*expired)[0] != string(holder.Claim)+" 10.0.0.0/28" {
		t.Errorf("the record is %v, told is %q; want no record, and that the claim had 10.0.0.0/28", p.kept(), *expired)
	}
}

// Without a lease, a block is retained as long as its record is there.
func TestLease_ZeroNeverEnds(t *testing.T) {
	t.Parallel()
	p, _ := retainedFor(t, 0)
	if until := p.block().Until; !until.IsZero() || p.kept().Status.Expires != nil {
		t.Errorf("the lease ends at %s, and the record expires at %s; want none", until, p.kept().Status.Expires)
	}
	p.clock.SetTime(p.clock.Now().Add(1000 * time.Hour))
	p.settles(p.given.Holder, live.Gone, nil)
	p.wantBlocks(p.is(ledger.Retained))
}

// A claim that reuses a retained block may be deleted before its record is written. The block is then freed or retained
// by the policy of that claim, and not by that of the former claim. The former claim's record is deleted, or becomes
// the record of that claim.
func TestLease_DoesNotKeepAReusedBlock(t *testing.T) {
	t.Parallel()
	for policy, want := range map[ipamv1alpha1.ReclaimPolicy][]string{
		ipamv1alpha1.ReclaimDelete: nil, ipamv1alpha1.ReclaimRetain: {"10.0.0.0/28 retained b"},
		"": nil, // not by the policy of the former claim
	} {
		t.Run(string(policy), func(t *testing.T) {
			p, _ := retainedFor(t, time.Hour)
			claim := gen.Claim("c", gen.UID("b"), gen.Reclaim(policy))
			must.Get(p.promises.Give(t.Context(), p.block(), claim))(t)
			p.Deleted(holderOf(claim), claim, nil)
			p.settled(holderOf(claim), nil)
			p.wantBlocks(want...)
			kept := p.kept()
			if want == nil && kept != nil {
				t.Errorf("the record is %+v, want none", kept)
			}
			if want == nil {
				return
			}
			if kept.AllocationID() != "b" || kept.Status.Expires == nil {
				t.Errorf("the record is that of %s, and expires at %v; want that of b, with an end", kept.AllocationID(), kept.Status.Expires)
			}
		})
	}
}

// In a ledger that was restored from an older copy, the block is bound, and has the policy of that time. The record is
// retained: so the block is retained until the time that the record shows, whatever that policy is.
func TestLease_ComesFromTheRecordIfTheLedgerWasRestored(t *testing.T) {
	t.Parallel()
	for _, policy := range []ipamv1alpha1.ReclaimPolicy{ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain} {
		p := newPromise(t, policy)
		p.pass(promise.Grace)
		kept := gen.Allocation("c", "p", "10.0.0.0/28", gen.Retained())
		until := time.Now().Add(time.Hour).Truncate(time.Second)
		kept.Status.Expires = new(metav1.NewTime(until))
		kept.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "c/a/" + string(p.given.Holder.Claim)}
		must.Do(t, p.workspace.Create(t.Context(), kept))
		p.settles(p.given.Holder, live.Gone, nil)
		if b := p.block(); b.State != ledger.Retained || !b.Until.Equal(until) {
			t.Errorf("%s: the block is %+v; want it retained until %s, as its record says", policy, b, until)
		}
	}
}

// due is a ledger whose leases end at the times in the field ends.
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

// When Expiry starts, it hints at the blocks whose leases are over. It hints at each other block when the lease of that
// block ends. News of a lease that ends sooner cuts the wait short.
func TestExpiry_HintsWhenALeaseEnds(t *testing.T) {
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
