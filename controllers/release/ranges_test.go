package release

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// fakeRanges has one range, which one claim holds.
type fakeRanges struct {
	pool    ledger.Pool
	dropped bool
}

func (r *fakeRanges) Held(by ledger.ClaimID) (ledger.Pool, bool) {
	return r.pool, by == r.pool.Derived.Holder.Claim && !r.dropped
}

func (r *fakeRanges) Hand(_ context.Context, _ ledger.PoolID, from ledger.ClaimID, to ledger.Holder) (bool, error) {
	if from != r.pool.Derived.Holder.Claim {
		return false, nil
	}
	next := *r.pool.Derived
	next.Holder, r.pool.Derived = to, &next
	return true, nil
}

func (r *fakeRanges) Drop(_ context.Context, _ ledger.PoolID, by ledger.ClaimID, since time.Time) error {
	if !since.Equal(r.pool.Derived.HeldSince) {
		return ledger.ErrChanged
	}
	r.dropped = r.dropped || by == r.pool.Derived.Holder.Claim
	return nil
}

// rangeScene returns a scene in which the claim holder has held a range for a minute.
func rangeScene(t *testing.T, holder ledger.ClaimID) (*scene, *fakeRanges) {
	t.Helper()
	s := newScene(t)
	s.ledger.released = true // it has no block
	ranges := &fakeRanges{pool: ledger.Pool{
		ID: ledger.DerivedID("net", "w", nil), Cluster: "w", Name: "net", CIDR: netip.MustParsePrefix("10.0.0.0/24"),
		Derived: &ledger.Derived{
			Class: "net", Workspace: "w", HeldSince: s.clock.Now().Add(-time.Minute),
			Holder: ledger.Holder{Claim: holder, Cluster: "w", Namespace: "default", Name: "c"},
		},
	}}
	s.ledger.root, s.ranges.ledger = &ranges.pool, ranges
	s.holder.Claim = holder
	return s, ranges
}

// The hold of a range ends when its claim is confirmed to be gone, and Dropped is told the pool. In doubt the hold
// stays. The pool is not drained.
func TestSettle_EndsTheHoldOfARangeWithItsClaim(t *testing.T) {
	for verdict, want := range map[live.Verdict]struct{ settled, dropped bool }{
		live.Gone: {true, true}, live.Alive: {true, false}, live.Unknown: {}, live.Unbound: {}, live.NoEndpoint: {},
	} {
		s, ranges := rangeScene(t, "uid-of-c")
		var told []ledger.PoolID
		s.ranges.dropped = func(id ledger.PoolID) { told = append(told, id) }
		if settled := s.settle(t, verdict); settled != want.settled || ranges.dropped != want.dropped || (len(told) == 1) != want.dropped {
			t.Errorf("verdict %d: settled = %t, dropped = %t, told of %v; want %+v", verdict, settled, ranges.dropped, told, want)
		}
		if s.ledger.drained {
			t.Errorf("verdict %d: the pool was drained", verdict)
		}
	}
}

// A CREATE was answered with a range, and its claim was not seen. When the CREATE can no longer succeed
// (promise.Grace), the hold of the range ends. The hold stays while a claim of the holder's name shows the range.
func TestSettle_EndsTheHoldOfARangeWhoseCreateFailed(t *testing.T) {
	shows := gen.Claim("c", gen.OfClass("net"), gen.ForRange())
	shows.Status.AllocatedCIDR, shows.Status.PoolRef = "10.0.0.0/24", &ipamv1alpha1.PoolRef{Name: "net"}
	another := shows.DeepCopy()
	another.Status.PoolRef.Name = "net-of-another-scope"
	block := gen.Claim("c", gen.OfClass("net"))
	block.Status.AllocatedCIDR = "10.0.0.0/24"
	for name, tt := range map[string]struct {
		later   *ipamv1alpha1.IPClaim
		age     time.Duration
		dropped bool
	}{
		"nobody comes":             {age: promise.Grace, dropped: true},
		"a claim for a block":      {later: block, age: time.Hour, dropped: true},
		"nobody came yet":          {age: promise.Grace - time.Second},
		"another claim comes":      {later: gen.Claim("c"), age: promise.Grace, dropped: true},
		"a claim that lost its ID": {later: shows, age: time.Hour},
		"a claim of another range": {later: another, age: time.Hour, dropped: true},
		"one that has just come":   {later: shows},
	} {
		t.Run(name, func(t *testing.T) {
			holder := promise.NewID("w", "default", "c")
			s, ranges := rangeScene(t, holder)
			ranges.pool.Derived.HeldSince = s.clock.Now().Add(-tt.age)
			s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
			if tt.later != nil {
				s.oracle.answer.Object = tt.later
			}
			settled, err := s.Settle(t.Context(), s.holder)
			if settled != tt.dropped || err != nil || ranges.dropped != tt.dropped || ranges.pool.Derived.Holder.Claim != holder {
				t.Errorf("Settle = %t, %v; dropped = %t, the holder is %s; want %t, and %s", settled, err, ranges.dropped, ranges.pool.Derived.Holder.Claim, tt.dropped, holder)
			}
		})
	}
}

// A hint drains neither a derived pool nor an address space. No server is asked for an IPPool with their ID, because
// there is none.
func TestSettle_DrainsNoDerivedPool(t *testing.T) {
	for _, id := range []ledger.PoolID{ledger.DerivedID("net", "w", nil), ledger.AddressSpaceID("uid-of-root", "w", nil)} {
		s := newScene(t)
		s.ledger.root = &ledger.Pool{ID: id, Cluster: "w", Name: "net"}
		s.holder = ledger.Holder{Claim: ledger.ClaimID(id), Cluster: "w", Name: "net"}
		if !s.settle(t, live.Gone) || s.ledger.drained || s.oracle.times > 0 {
			t.Errorf("%s: drained = %t, asked %d times; want neither", id, s.ledger.drained, s.oracle.times)
		}
	}
}

// rootScene makes a scene whose holder is a root pool.
func rootScene(t *testing.T) *scene {
	s := newScene(t)
	s.holder = ledger.Holder{Claim: "uid-of-pool", Cluster: "w", Name: "pool"}
	s.ledger.root = &ledger.Pool{ID: "uid-of-pool", Cluster: "w", Name: "pool", RegisteredAt: s.clock.Now()}
	return s
}

// A root pool is drained after the same answers of the servers after which a block is freed. An endpoint slice that is
// made while a shard is down does not list that shard. So if a workspace is unbound, a block or pool as old as the
// slice is freed only if the binding was seen to go.
func TestSettle_NeedsTheSameAnswersToDrainARootPoolAsToFreeABlock(t *testing.T) {
	for name, tt := range map[string]struct {
		verdict live.Verdict
		looks   int
		departs bool
		younger bool // than the endpoint slice; else as old
		frozen  bool // of the pool; the block is not judged then
		want    bool
	}{
		"there":                                   {verdict: live.Alive, looks: 3},
		"gone":                                    {verdict: live.Gone, looks: 1, want: true},
		"gone, and its space has lost changes":    {verdict: live.Gone, looks: 3, frozen: true},
		"nobody can say":                          {verdict: live.Unknown, looks: 3},
		"unbound, once":                           {verdict: live.Unbound, looks: 1, younger: true},
		"unbound, twice":                          {verdict: live.Unbound, looks: 2, younger: true, want: true},
		"unbound, as old as the slice":            {verdict: live.Unbound, looks: 3},
		"unbound, as old as the slice, seen":      {verdict: live.Unbound, looks: 2, departs: true, want: true},
		"unbound, and its space has lost changes": {verdict: live.Unbound, looks: 3, younger: true, frozen: true},
		"no endpoint":                             {verdict: live.NoEndpoint, looks: 3, younger: true},
		"no endpoint, and its binding seen to go": {verdict: live.NoEndpoint, looks: 2, departs: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			pool, block := rootScene(t), newScene(t)
			pool.ledger.root.Frozen, block.ledger.block.BoundAt = tt.frozen, block.clock.Now()
			for _, s := range []*scene{pool, block} {
				if tt.departs {
					s.Departed("w")
				}
				s.oracle.answer = live.Answer{Verdict: tt.verdict, Client: s.workspace, Since: s.clock.Now()}
				if tt.younger {
					s.oracle.answer.Since = s.clock.Now().Add(-time.Minute)
				}
				for range tt.looks {
					must.Get(s.Settle(t.Context(), s.holder))(t)
					s.clock.SetTime(s.clock.Now().Add(time.Minute))
				}
			}
			if pool.drained() != tt.want {
				t.Errorf("the pool is drained: %t after %d looks, want %t", pool.drained(), tt.looks, tt.want)
			}
			if block.ledger.released != tt.want && !tt.frozen {
				t.Errorf("the block is released: %t after %d looks, want %t", block.ledger.released, tt.looks, tt.want)
			}
		})
	}
}

// A server that lacks a pool, and is older than the pool as last seen, was restored from a backup. The pool stays.
func TestSettle_DistrustsAServerOlderThanThePool(t *testing.T) {
	s := rootScene(t)
	last := gen.Pool("pool")
	last.ResourceVersion = "100"
	s.PoolDeleted(s.holder, last)
	for revision, want := range map[string]bool{"99": false, "100": true} {
		s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace, Revision: revision}
		if settled, err := s.Settle(t.Context(), s.holder); err != nil || settled != want || s.drained() != want {
			t.Errorf("server at %s: Settle = %t, %v, drained %t; want %t", revision, settled, err, s.drained(), want)
		}
		s.ledger.drained = false
	}
}
