package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

func TestSettle_FreesAtTheSecondCensusThatLacksTheWorkspace(t *testing.T) {
	s := newScene(t)
	s.Departed("w")
	s.settle(t, live.Unbound)
	if s.settle(t, live.Unbound) || s.ledger.released {
		t.Error("freed though the two looks were not apart")
	}
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	if !s.settle(t, live.Unbound) || !s.ledger.released || s.ledger.cause != ledger.CauseWorkspaceGone {
		t.Errorf("freed at the second look: %t, because of %q; want it freed because of %q", s.ledger.released, s.ledger.cause, ledger.CauseWorkspaceGone)
	}
}

// A shard that is started again can list no bindings for some seconds. If nobody has seen the binding of a workspace
// go, its blocks are freed only after a much longer absence. A census that shows the workspace ends the absence.
func TestSettle_WaitsLongerIfNobodySawTheBindingGo(t *testing.T) {
	s := newScene(t)
	look := func(verdict live.Verdict, after time.Duration) bool {
		s.clock.SetTime(s.clock.Now().Add(after))
		s.settle(t, verdict)
		return s.ledger.released
	}
	for range unseen {
		if look(live.Unbound, s.options.Absence) {
			t.Fatal("freed after a moment")
		}
	}
	s.oracle.answer = live.Answer{Verdict: live.Alive}
	s.clock.SetTime(s.clock.Now().Add(s.options.Absence))
	if _, err := s.census(t.Context(), func(census) bool { return false }); !errors.Is(err, errUncounted) { // for somebody else
		t.Fatalf("census: %v, want %v", err, errUncounted)
	}
	if look(live.Unbound, unseen*s.options.Absence) {
		t.Error("freed at the first look after the workspace was found bound")
	}
	if !look(live.Unbound, unseen*s.options.Absence) {
		t.Error("not freed, though the workspace is absent for long")
	}
}

// Reconcile requeues the hint for the time at which a second census counts, however much backoff it had before, and
// although the sweep settles the same holder in between.
func TestReconcile_RequeuesForTheTimeOfASecondCensus(t *testing.T) {
	s := newScene(t)
	s.Bound = func(ledger.ClusterName) bool { return false } // say the caches
	reconcile := func(verdict live.Verdict) time.Time {
		s.oracle.answer = live.Answer{Verdict: verdict}
		result := must.Get(s.Reconcile(t.Context(), s.holder))(t)
		return s.clock.Now().Add(result.RequeueAfter)
	}
	for range 5 {
		s.clock.SetTime(reconcile(live.Unknown))
	}
	first := s.clock.Now()
	again := reconcile(live.Unbound)
	for range 3 {
		s.clock.SetTime(s.clock.Now().Add(s.options.Absence))
		s.settle(t, live.Unbound) // for the sweep
	}
	if wait := again.Sub(first); s.ledger.released || wait != unseen*s.options.Absence {
		t.Fatalf("released = %t, asks again after %v; want %v", s.ledger.released, wait, unseen*s.options.Absence)
	}
	s.clock.SetTime(again)
	reconcile(live.Unbound)
	if !s.ledger.released {
		t.Error("not freed when a second census counts")
	}
}

// crowd is a ledger in which each of many claims has a block, and an oracle for workspaces that a test binds and
// unbinds.
type crowd struct {
	every

	fakeLedger
	blocks map[ledger.ClaimID]ledger.Block
	bound  map[ledger.ClusterName]bool
	lists  int          // how many censuses were taken
	asked  int          // how often a single holder was asked for
	away   error        // a census fails with it; nil: it does not
	doubt  *live.Census // the answer of each census; nil: the workspaces that are bound
}

func (c *crowd) Lookup(_ context.Context, claim ledger.ClaimID) (ledger.Block, bool, error) {
	b, ok := c.blocks[claim]
	return b, ok, nil
}

func (c *crowd) ReleaseFor(_ context.Context, b ledger.Block, _ ledger.Cause) error {
	delete(c.blocks, b.Holder.Claim)
	return nil
}

func (c *crowd) Holder(context.Context, ledger.Holder) (live.Answer, error) {
	c.asked++
	return live.Answer{Verdict: live.Alive}, nil
}

func (c *crowd) Lacks(context.Context, ledger.Holder) (client.Client, bool, error) {
	return nil, false, nil
}

func (*crowd) Existed(context.Context, client.Client, ledger.Holder, string) (existed, known bool, err error) {
	return false, false, nil
}

func (c *crowd) Census(context.Context) (live.Census, bool, error) {
	c.lists++
	if c.doubt != nil {
		return *c.doubt, true, nil
	}
	return live.Census{Bound: maps.Clone(c.bound), Endpoints: 1}, c.away == nil, c.away
}

// newCrowd makes a Controller for this number of workspaces, which are bound, with this number of claims in each.
func newCrowd(t *testing.T, workspaces, claims int) (*crowd, *Controller, *clocktesting.FakePassiveClock) {
	t.Helper()
	world := &crowd{blocks: map[ledger.ClaimID]ledger.Block{}, bound: map[ledger.ClusterName]bool{}}
	for i := range workspaces * claims {
		h := ledger.Holder{
			Claim: ledger.ClaimID(fmt.Sprint(i)), Cluster: ledger.ClusterName(fmt.Sprint(i / claims)), Namespace: "default", Name: "c",
		}
		world.revision++
		world.blocks[h.Claim] = ledger.Block{Holder: h, State: ledger.Bound, Revision: world.revision}
		world.bound[h.Cluster] = true
	}
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	c := newController(complete(Options{Ledger: all(world), Oracle: world, Clock: clock, Bound: func(name ledger.ClusterName) bool { return world.bound[name] }}))
	t.Cleanup(c.queue.ShutDown)
	return world, c, clock
}

// look settles a hint at every block, and returns how many blocks are left.
func (c *crowd) look(t *testing.T, by *Controller) int {
	t.Helper()
	for _, b := range c.blocks {
		if _, err := by.Settle(t.Context(), b.Holder); err != nil && c.away == nil {
			t.Fatalf("Settle(%v) = %v", b.Holder, err)
		}
	}
	return len(c.blocks)
}

// Two censuses free the blocks of all workspaces that leave, however many these are and however many claims they have.
// No server is asked for a single claim.
func TestCensus_IsSharedByAllThatLeave(t *testing.T) {
	for _, workspaces := range []int{1, 500} {
		world, c, clock := newCrowd(t, workspaces, 20)
		for name := range maps.Clone(world.bound) {
			delete(world.bound, name)
			c.Departed(name)
		}
		if left := world.look(t, c); left != workspaces*20 {
			t.Fatalf("%d workspaces: %d blocks are left after the first look, want all %d", workspaces, left, workspaces*20)
		}
		clock.SetTime(clock.Now().Add(2 * time.Second))
		if left := world.look(t, c); left != 0 || world.lists != 2 || world.asked != 0 {
			t.Errorf("%d workspaces that left: %d blocks are left, after %d lists of who is bound and %d questions for a claim; want 0, 2 and 0",
				workspaces, left, world.lists, world.asked)
		}
	}
}

// While a shard is away, no census succeeds, and nothing is freed. One census at a time is tried for all claims.
func TestCensus_FailsOnceForAllClaimsWhileAShardIsAway(t *testing.T) {
	world, c, clock := newCrowd(t, 10, 20)
	world.away = errors.New("connection refused")
	clear(world.bound)
	for i := range 10 {
		c.Departed(ledger.ClusterName(fmt.Sprint(i)))
	}
	for range 3 {
		if left := world.look(t, c); left != 200 || world.lists > 1 || world.asked != 0 {
			t.Fatalf("%d blocks are left after %d lists and %d questions for a claim; want 200, 1 and 0", left, world.lists, world.asked)
		}
		world.lists = 0
		clock.SetTime(clock.Now().Add(2 * time.Second))
	}
}

// A census frees no block that was bound after the census began, although it lacks the block's workspace: the workspace
// may be bound again.
func TestCensus_FreesNoBlockThatWasBoundLater(t *testing.T) {
	world, c, clock := newCrowd(t, 1, 1)
	clear(world.bound)
	for range 2 {
		world.look(t, c)
		clock.SetTime(clock.Now().Add(2 * time.Minute))
	}
	if len(world.blocks) != 0 {
		t.Fatal("the first block is not freed")
	}
	again := ledger.Holder{Claim: "again", Cluster: "0", Namespace: "default", Name: "c"}
	world.revision++
	world.blocks["again"] = ledger.Block{Holder: again, State: ledger.Bound, Revision: world.revision}
	if left := world.look(t, c); left != 1 {
		t.Error("a block was freed by a census from before it was bound")
	}
	world.bound["0"] = true
	clock.SetTime(clock.Now().Add(2 * time.Second))
	if left := world.look(t, c); left != 1 || world.asked == 0 {
		t.Errorf("%d blocks are left after %d questions for the claim; want the block kept, since the claim is there", left, world.asked)
	}
}

// A census without an endpoint, or of an endpoint slice that is younger than the blocks, frees nothing. A later census
// is taken, and frees the blocks if it lacks the workspace, has an endpoint, and its endpoint slice is older.
func TestCensus_IsTakenAgainIfItIsInDoubt(t *testing.T) {
	world, c, clock := newCrowd(t, 2, 1)
	delete(world.bound, "0")
	for _, doubt := range []live.Census{{Endpoints: 0}, {Endpoints: 1, Since: time.Now().Add(time.Hour)}} {
		for id, b := range world.blocks {
			b.BoundAt = time.Now()
			world.blocks[id] = b
		}
		world.doubt = &doubt
		for range 3 {
			if left := world.look(t, c); left != 2 {
				t.Fatalf("%d blocks are left while it is in doubt who is bound, want 2", left)
			}
			clock.SetTime(clock.Now().Add(2 * time.Second))
		}
	}
	world.doubt = nil
	for range 2 {
		world.look(t, c)
		clock.SetTime(clock.Now().Add(2 * time.Minute))
	}
	if _, held := world.blocks["0"]; held || len(world.blocks) != 1 {
		t.Errorf("blocks %v are left, want that of workspace 1 alone", world.blocks)
	}
}

// A census that began before a workspace left says nothing of that workspace. Its blocks are freed by later censuses,
// and no server is asked for a single claim.
func TestCensus_FreesNoBlockOfAWorkspaceThatLeftLater(t *testing.T) {
	world, c, clock := newCrowd(t, 2, 1)
	delete(world.bound, "0")
	c.Departed("0")
	world.look(t, c) // a census that has workspace 1
	world.asked = 0
	clock.SetTime(clock.Now().Add(time.Second))
	delete(world.bound, "1")
	c.Departed("1")
	for range 5 {
		world.look(t, c)
		clock.SetTime(clock.Now().Add(2 * time.Second))
	}
	if len(world.blocks) != 0 || world.asked != 0 {
		t.Errorf("%d blocks are left after %d questions for a claim, want none and 0", len(world.blocks), world.asked)
	}
}

// A record may be stored after its workspace was unbound and bound again, while the caches still show the workspace as
// bound nowhere: the write was under way when the binding went. Nobody has the claim, and no later hint comes. So the
// hint that the record brings is not settled by censuses of the time before: a server is asked, and the record goes.
func TestSettle_DeletesARecordThatCameAfterTheNextBinding(t *testing.T) {
	leave := func(t *testing.T, s *scene) {
		s.Departed(s.holder.Cluster)
		for range 2 {
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			s.settle(t, live.Unbound)
		}
	}
	for name, before := range map[string]func(*testing.T, *scene){
		"nobody saw the binding go":     func(_ *testing.T, s *scene) { s.ledger.released = true },
		"censuses lacked the workspace": leave,
		"its block is not free yet": func(t *testing.T, s *scene) {
			own := s.ledger.block
			s.holder.Claim, s.ledger.block.Holder.Claim = "uid-of-another", "uid-of-another"
			leave(t, s)
			s.ledger.block, s.ledger.released, s.ledger.done, s.holder = own, false, make(chan struct{}), own.Holder
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Bound = func(ledger.ClusterName) bool { return false } // say the caches
			before(t, s)
			must.Do(t, s.workspace.Create(t.Context(), gen.Allocation("c", "p", "10.0.0.0/28")))
			s.Missed(s.holder, nil)
			s.oracle.answer = live.Answer{Verdict: live.Gone, Client: s.workspace}
			for tries := 0; s.seen(s.holder.Claim).number != 0; tries++ {
				if must.Get(s.Reconcile(t.Context(), s.holder))(t); tries > 2 {
					t.Fatal("the hint is never settled")
				}
			}
			if s.record(t) != nil || !s.ledger.released {
				t.Errorf("record = %v, released = %t; want neither record nor block", s.record(t), s.ledger.released)
			}
		})
	}
}
