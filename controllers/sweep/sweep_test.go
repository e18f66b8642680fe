package sweep

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/must"
)

// scene is a sweeper over blocks that a test lists, all of pool p.
type scene struct {
	views.Blocks
	views.Pools
	views.Recovery
	*Sweeper
	blocks     []ledger.Block
	unreadable map[ledger.ClaimID]error
	states     map[ledger.ClaimID]State
	departed   bool
	witnessed  map[ledger.ClaimID]bool // seen being deleted
	changed    map[ledger.Position]ledger.Block
	lists      []time.Time // when the blocks were listed
	read       int         // blocks
	looked     int         // holders
	allowed    bool
	pools      []ledger.Pool
	held       map[ledger.PoolID]int  // blocks of pools, as the ledger counts them
	unseen     map[ledger.PoolID]bool // pools that were not compared yet
	suspected  []ledger.ClaimID
	woken      []ledger.ClaimID
	warnings   int
	clock      *clocktesting.FakeClock
}

func newScene(t *testing.T, blocks int) *scene {
	t.Helper()
	s := &scene{states: map[ledger.ClaimID]State{}}
	s.clock = clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for i := range blocks {
		s.blocks = append(s.blocks, ledger.Block{
			Prefix:   netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32),
			Pool:     "p",
			Holder:   ledger.Holder{Claim: ledger.ClaimID(fmt.Sprint(i)), Cluster: "w", Namespace: "n", Name: fmt.Sprint(i)},
			BoundAt:  s.clock.Now().Add(-time.Hour),
			Revision: 1,
		})
	}
	s.Sweeper = New(Options{Ledger: views.Ledger{Blocks: s, Pools: s, Recovery: s}, Releases: s, World: s, Clock: s.clock,
		Wake: func(h ledger.Holder) { s.woken = append(s.woken, h.Claim) }})
	return s
}

func (s *scene) List(_ context.Context, opts allocator.ListOptions) iter.Seq2[ledger.Block, error] {
	s.lists = append(s.lists, time.Now())
	return func(yield func(ledger.Block, error) bool) {
		for _, b := range s.blocks {
			if b.Prefix.Addr().Compare(opts.After.Prefix.Addr()) <= 0 {
				continue
			}
			if s.read++; !yield(b, s.unreadable[b.Holder.Claim]) {
				return
			}
		}
	}
}

func (s *scene) ChangedBlocks() map[ledger.Position]ledger.Block {
	changed := s.changed
	s.changed = nil
	return changed
}

func (s *scene) Get(id ledger.PoolID) (ledger.Pool, bool) {
	if i := slices.IndexFunc(s.pools, func(p ledger.Pool) bool { return p.ID == id }); i >= 0 {
		return s.pools[i], true
	}
	return ledger.Pool{ID: id, Cluster: "platform", Name: string(id)}, true
}

func (s *scene) All() iter.Seq[ledger.Pool] { return slices.Values(s.pools) }

func (s *scene) Capacity(id ledger.PoolID) (ledger.Capacity, bool) {
	return ledger.Capacity{Blocks: s.held[id]}, true
}

func (s *scene) Frozen(id ledger.PoolID) bool { return s.unseen[id] }
func (s *scene) Suspect(h ledger.Holder)      { s.suspected = append(s.suspected, h.Claim) }
func (s *scene) State(_ context.Context, b ledger.Block) State {
	s.looked++
	return s.states[b.Holder.Claim]
}
func (s *scene) HasDeparted(ledger.ClusterName) bool  { return s.departed }
func (s *scene) SawDeleted(claim ledger.ClaimID) bool { return s.witnessed[claim] }
func (s *scene) Allowed(context.Context, ledger.Pool, []ledger.Holder, time.Time) bool {
	return s.allowed
}
func (s *scene) Warn(context.Context, ledger.Pool, string) { s.warnings++ }

// orphan makes the first n blocks orphans.
func (s *scene) orphan(n int) {
	for _, b := range s.blocks[:n] {
		s.states[b.Holder.Claim] = Orphaned
	}
}

// sweep looks once, and returns the holders that the look suspects. One look is a whole round, unless the round has
// parts.
func (s *scene) sweep(t *testing.T) []ledger.ClaimID {
	t.Helper()
	s.suspected = nil
	must.Do(t, s.look(t.Context()))
	return s.suspected
}

// A cooling block has no holder. It is not an orphan, even if its workspace has left.
func TestSweep_LeavesCoolingBlocksAlone(t *testing.T) {
	s := newScene(t, 1)
	s.orphan(1)
	s.blocks[0].State = ledger.Cooling
	for range 3 {
		if got := s.sweep(t); len(got) != 0 {
			t.Errorf("a cooling block is suspected: %v", got)
		}
	}
	s.departures.add("w")
	if err := s.suspectDeparted(t.Context()); err != nil || len(s.suspected) != 0 {
		t.Errorf("suspectDeparted = %v, and suspects %v; want nothing", err, s.suspected)
	}
}

func TestSweep_StartsOverAfterAChange(t *testing.T) {
	s := newScene(t, 1)
	s.orphan(1)
	s.sweep(t)
	s.blocks[0].Revision++
	if got := s.sweep(t); len(got) != 0 {
		t.Errorf("a block that has changed is suspected: %v", got)
	}
	s.states["0"] = Held
	s.sweep(t)
	s.states["0"] = Orphaned
	if got := s.sweep(t); len(got) != 0 {
		t.Errorf("a block that was held in between is suspected: %v", got)
	}
}

func TestSweep_LeavesYoungBlocksAlone(t *testing.T) {
	s := newScene(t, 1)
	s.orphan(1)
	s.blocks[0].BoundAt = s.clock.Now().Add(-59 * time.Second)
	s.sweep(t)
	if got := s.sweep(t); len(got) != 0 {
		t.Errorf("a block of 59 s is suspected: %v", got)
	}
	s.clock.Step(time.Second)
	s.sweep(t)
	if got := s.sweep(t); len(got) != 1 {
		t.Error("a block of 60 s is not suspected")
	}
}

// answers makes a block of the scene one that a CREATE was answered with at this time.
func (s *scene) answers(i int, at time.Time) {
	h := &s.blocks[i].Holder
	h.Claim = promise.NewID(h.Cluster, h.Namespace, h.Name)
	s.blocks[i].BoundAt = at
}

// While the claim of an answered CREATE may still come, its block is no orphan, and the brake does not count it.
// Afterwards it is judged as any other block.
func TestSweep_LeavesAnswersAloneForTheirGrace(t *testing.T) {
	s := newScene(t, 2*few)
	for i := range s.blocks {
		at := s.clock.Now()
		if i < few {
			at = at.Add(-promise.Grace)
		}
		s.answers(i, at)
		s.states[s.blocks[i].Holder.Claim] = Orphaned
	}
	s.sweep(t)
	s.clock.Step(promise.Grace - time.Millisecond)
	got := s.sweep(t)
	if len(got) != few || slices.ContainsFunc(s.blocks[few:], func(b ledger.Block) bool { return slices.Contains(got, b.Holder.Claim) }) || s.warnings != 0 {
		t.Errorf("suspected are %v, with %d warnings; want the %d old ones, and no brake", got, s.warnings, few)
	}
	s.blocks = s.blocks[few:]
	s.clock.Step(time.Millisecond)
	s.sweep(t)
	if got := s.sweep(t); len(got) != few {
		t.Errorf("after the grace %d are suspected, want all %d", len(got), few)
	}
}

func TestSweep_BrakesForTooManyOrphans(t *testing.T) {
	for _, tt := range []struct {
		name            string
		blocks, orphans int
		allowed         bool
		want            int
	}{
		{"few of few", 10, 10, false, 10},
		{"more than few of few", 20, 11, false, 0},
		{"a tenth of many", 500, 50, false, 50},
		{"more than a tenth", 500, 51, false, 0},
		{"a hundred of very many", 5000, 100, false, 100},
		{"more than a hundred", 5000, 101, false, 0},
		{"allowed by an operator", 500, 400, true, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, tt.blocks)
			s.orphan(tt.orphans)
			s.allowed = tt.allowed
			if got := s.sweep(t); len(got) != 0 {
				t.Errorf("the first look suspects %v, want nobody", got)
			}
			if got := s.sweep(t); len(got) != tt.want {
				t.Errorf("%d suspected, want %d", len(got), tt.want)
			}
			s.sweep(t)
			if held := tt.want == 0; (s.warnings == 1) != held {
				t.Errorf("%d warnings, want one and no more only if the brake holds", s.warnings)
			}
		})
	}
}

// A tenant can delete claims whose release fails each time: claims with the policy Retain, in a namespace with a quota
// for IPAllocations. It can also remove the finalizers of child pools that are deleted while they are in use. The brake
// counts neither: the caches are right about a deletion that was seen, and a draining pool goes with its last block. So
// the sweep still finds the orphans of others.
func TestSweep_DoesNotBrakeForSeenDeletionsOrDrainingPools(t *testing.T) {
	for name, tt := range map[string]struct {
		excuse func(s *scene, b *ledger.Block)
		ends   func(s *scene)
	}{
		"deletions that were seen": {
			func(s *scene, b *ledger.Block) { s.witnessed[b.Holder.Claim] = true },
			func(s *scene) { s.orphan(2*few + 2) },
		},
		"child pools that drain": {
			func(s *scene, b *ledger.Block) {
				b.Holder.Namespace = ""
				s.pools = append(s.pools, ledger.Pool{ID: ledger.PoolID(b.Holder.Claim), Parent: "p", State: ledger.PoolDraining})
			},
			func(s *scene) {
				for i := range s.pools {
					s.pools[i].State = ledger.PoolOpen
				}
			},
		},
	} {
		s := newScene(t, 40)
		s.orphan(few + 2)
		s.witnessed = map[ledger.ClaimID]bool{}
		for i := range s.blocks[:few+1] {
			tt.excuse(s, &s.blocks[i])
		}
		s.sweep(t)
		if got, want := s.sweep(t), []ledger.ClaimID{s.blocks[few+1].Holder.Claim}; !slices.Equal(got, want) || s.warnings != 0 {
			t.Errorf("%s: suspected are %v, with %d warnings; want %v, and no brake", name, got, s.warnings, want)
		}
		tt.ends(s)
		s.sweep(t)
		if got := s.sweep(t); len(got) != 0 || s.warnings != 1 {
			t.Errorf("%s: suspected are %v, with %d warnings; want the brake to hold when there are too many others", name, got, s.warnings)
		}
	}
}

func TestSweep_BrakesForAWorkspaceThatNobodySawLeave(t *testing.T) {
	s := newScene(t, 50)
	for _, b := range s.blocks {
		s.states[b.Holder.Claim] = Away
	}
	s.sweep(t)
	if got := s.sweep(t); len(got) != 0 || s.warnings != 1 {
		t.Errorf("%d suspected, %d warnings, though nobody saw the workspace leave; want the brake to hold", len(got), s.warnings)
	}
	s.departed = true
	if got := s.sweep(t); len(got) != 50 {
		t.Errorf("%d suspected of a workspace that was seen to leave, want all 50", len(got))
	}
}

func TestSweep_WakesTheClaimThatLostItsRecord(t *testing.T) {
	s := newScene(t, 2)
	s.states["1"] = Unrecorded
	if got := s.sweep(t); len(got) != 0 || !slices.Equal(s.woken, []ledger.ClaimID{"1"}) {
		t.Errorf("suspected %v, woken %v", got, s.woken)
	}
}

// Tenants cannot make the metrics grow by making pools.
func TestLabels_NameABoundedNumberOfPools(t *testing.T) {
	s := &Sweeper{}
	names := map[string]bool{}
	for i := range 3 * maxNamed {
		names[s.labels(ledger.Pool{Name: strconv.Itoa(i)})[1]] = true
	}
	if len(names) != maxNamed+1 || !names[""] {
		t.Errorf("%d names, want %d and the empty one", len(names), maxNamed)
	}
}

// A block that cannot be read is skipped: its claim is not suspected, and the other blocks are looked at.
func TestSweep_SkipsUnreadableBlocks(t *testing.T) {
	s := newScene(t, 20)
	s.unreadable = map[ledger.ClaimID]error{"7": &ledger.DamageError{Key: "spaces/p/blocks/7", Err: errors.New("no JSON")}}
	for _, claim := range []ledger.ClaimID{"7", "9"} {
		s.states[claim] = Orphaned
	}
	for range 2 {
		must.Do(t, s.look(t.Context()))
	}
	if want := []ledger.ClaimID{"9"}; !slices.Equal(s.suspected, want) {
		t.Errorf("suspected = %v, want %v", s.suspected, want)
	}
}
