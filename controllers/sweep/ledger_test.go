package sweep

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// land is a sweeper over a real ledger. No block in it is too young.
type land struct {
	*Sweeper
	*allocator.Allocator
	orphaned  map[ledger.ClaimID]bool
	suspected []ledger.ClaimID
}

func newLand(t *testing.T, blocks int) *land {
	t.Helper()
	alloc := testbed.Ledger(t, etcdtest.New(t).Client(), allocator.Options{},
		testbed.Pool("w", "p", "10.0.0.0/16"), testbed.Pool("w", "q", "2001:db8::/32"))
	l := &land{Allocator: alloc, orphaned: map[ledger.ClaimID]bool{}}
	for _, id := range []ledger.PoolID{"p", "q"} {
		var binds sync.WaitGroup
		for i := range blocks {
			binds.Go(func() { l.bind(t, id, fmt.Sprint(id, i)) })
		}
		binds.Wait()
	}
	l.Sweeper = New(Options{Ledger: views.Of(alloc), Releases: l, World: l, Clock: clocktesting.NewFakeClock(time.Now().Add(time.Hour))})
	return l
}

func (l *land) bind(t *testing.T, pool ledger.PoolID, claim string) ledger.Block {
	t.Helper()
	b, err := l.Bind(context.WithoutCancel(t.Context()), ledger.Request{
		Pool: pool, Length: map[ledger.PoolID]int{"p": 32, "q": 64}[pool], Policy: ledger.Delete,
		Holder: ledger.Holder{Claim: ledger.ClaimID(claim), Cluster: "w", Namespace: "n", Name: claim},
	})
	if err != nil {
		t.Errorf("Bind(%s): %v", claim, err)
	}
	return b
}

func (l *land) Suspect(h ledger.Holder)             { l.suspected = append(l.suspected, h.Claim) }
func (l *land) HasDeparted(ledger.ClusterName) bool { return false }
func (l *land) State(_ context.Context, b ledger.Block) State {
	if l.orphaned[b.Holder.Claim] {
		return Orphaned
	}
	return Held
}
func (l *land) Allowed(context.Context, ledger.Pool, []ledger.Holder, time.Time) bool {
	return false
}
func (l *land) Warn(context.Context, ledger.Pool, string) {}

// A round of a real ledger in parts sees every block once, and suspects the orphans of two rounds, as
// one in a single part does.
func TestLedger_RoundInParts(t *testing.T) {
	t.Parallel()
	const each = 1500
	l := newLand(t, each)
	for _, claim := range []ledger.ClaimID{"p0", "p733", "q1499"} {
		l.orphaned[claim] = true
	}
	for round, parts := range []int{1, 7, 7, 1} {
		l.parts, l.suspected = parts, nil
		for looks := 0; ; {
			if err := l.look(t.Context()); err != nil {
				t.Fatalf("look: %v", err)
			}
			if looks++; l.round.blocks == 0 {
				if looks != parts {
					t.Errorf("round %d ended after %d looks, want %d", round, looks, parts)
				}
				break
			}
		}
		if l.blocks != 2*each {
			t.Errorf("round %d has seen %d blocks, want %d", round, l.blocks, 2*each)
		}
		slices.Sort(l.suspected)
		if want := []ledger.ClaimID{"p0", "p733", "q1499"}; round > 0 && !slices.Equal(l.suspected, want) {
			t.Errorf("round %d suspects %v, want %v", round, l.suspected, want)
		}
	}
}

// A glance at a real ledger sees what was bound since the one before, before any round has.
func TestLedger_Glance(t *testing.T) {
	t.Parallel()
	l := newLand(t, 10)
	l.glance(t.Context())
	b := l.bind(t, "p", "lost")
	l.orphaned["lost"] = true
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		l.glance(ctx)
		return l.round.sightings["lost"] == b.Revision, nil
	}); err != nil {
		t.Fatalf("no glance sees the block that was bound: %v", err)
	}
	if len(l.round.sightings) != 1 {
		t.Errorf("sightings = %v, want that of the lost claim alone", l.round.sightings)
	}
}
