package promise

import (
	"errors"
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

func holder(name string) ledger.Holder {
	return ledger.Holder{Claim: NewID("w", "n", name), Cluster: "w", Namespace: "n", Name: name}
}

// remembered returns answers with a clock that the test moves, and the holders that were hinted at.
func remembered() (a *Answers, clock *clocktesting.FakeClock, hinted *[]ledger.Holder) {
	clock, hinted = clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), new([]ledger.Holder)
	return NewAnswers(clock, func(h ledger.Holder) { *hinted = append(*hinted, h) }), clock, hinted
}

// begin notes a CREATE.
func begin(t *testing.T, a *Answers, name string) ledger.Holder {
	t.Helper()
	h := holder(name)
	if err := a.Begin(h); err != nil {
		t.Fatalf("Begin(%s): %v", name, err)
	}
	return h
}

// Each step of a CREATE changes what Answers say of it.
func TestAnswers_FollowACreate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		then                               func(*Answers, ledger.Holder)
		unseen, untold, failed, unrecorded bool
		counted                            int
	}{
		"answered":             {func(*Answers, ledger.Holder) {}, true, true, false, true, 1},
		"its claim was seen":   {func(a *Answers, h ledger.Holder) { a.Stored(h) }, false, false, false, true, 0},
		"seen twice":           {func(a *Answers, h ledger.Holder) { a.Stored(h); a.Stored(h) }, false, false, false, true, 0},
		"its record written":   {func(a *Answers, h ledger.Holder) { a.Stored(h); a.Forget(h); a.Forget(h) }, false, false, false, false, 0},
		"it got no block":      {func(a *Answers, h ledger.Holder) { a.Forget(h) }, false, false, false, false, 0},
		"nobody was told":      {func(a *Answers, h ledger.Holder) { a.Fail(h) }, false, true, true, true, 1},
		"and its block freed":  {func(a *Answers, h ledger.Holder) { a.Fail(h); a.Freed(h) }, false, true, true, true, 0},
		"never stored, freed":  {func(a *Answers, h ledger.Holder) { a.Freed(h) }, false, false, false, false, 0},
		"another one was seen": {func(a *Answers, _ ledger.Holder) { a.Stored(holder("c")) }, true, true, false, true, 1},
	} {
		a, _, _ := remembered()
		h := begin(t, a, "c")
		tt.then(a, h)
		untold, failed := a.Untold(h)
		if got := [4]bool{a.Unseen(h), untold, failed, a.Unrecorded(h)}; got != [4]bool{tt.unseen, tt.untold, tt.failed, tt.unrecorded} || a.Count()["w"] != tt.counted {
			t.Errorf("%s: unseen, untold, failed, unrecorded = %v, counted %d; want %v, %d", name, got, a.Count()["w"],
				[4]bool{tt.unseen, tt.untold, tt.failed, tt.unrecorded}, tt.counted)
		}
	}
}

// Of the CREATEs of one name, one at a time is answered. The next one is answered when the claim was seen, or the
// former CREATE has failed or is old.
func TestAnswers_AllowOneCreateOfAName(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*Answers, ledger.Holder, *clocktesting.FakeClock){
		"its claim was seen": func(a *Answers, h ledger.Holder, _ *clocktesting.FakeClock) { a.Stored(h) },
		"it failed":          func(a *Answers, h ledger.Holder, _ *clocktesting.FakeClock) { a.Fail(h) },
		"it is old":          func(_ *Answers, _ ledger.Holder, c *clocktesting.FakeClock) { c.Step(turn) },
		"it was refused":     func(a *Answers, h ledger.Holder, _ *clocktesting.FakeClock) { a.Forget(h) },
	} {
		a, clock, _ := remembered()
		first := begin(t, a, "c")
		if err := a.Begin(holder("c")); !errors.Is(err, ErrTurn) {
			t.Errorf("Begin of a second one = %v, want %v", err, ErrTurn)
		}
		begin(t, a, "another")
		then(a, first, clock)
		if err := a.Begin(holder("c")); err != nil {
			t.Errorf("%s: Begin = %v, want another one answered", name, err)
		}
	}
}

// A workspace may have only MaxUnseen CREATEs whose claims were not seen. Another workspace has its own number.
func TestAnswers_LimitTheUnseenCreatesOfAWorkspace(t *testing.T) {
	t.Parallel()
	a, _, _ := remembered()
	var last ledger.Holder
	for i := range MaxUnseen {
		last = begin(t, a, fmt.Sprint(i))
	}
	if err := a.Begin(holder("more")); !errors.Is(err, ErrUnseen) {
		t.Errorf("Begin = %v, want %v", err, ErrUnseen)
	}
	other := holder("more")
	other.Cluster = "v"
	if err := a.Begin(other); err != nil {
		t.Errorf("Begin in another workspace = %v", err)
	}
	a.Stored(last)
	begin(t, a, "more")
}

// A CREATE whose block was found to be free does not count any more, while other CREATEs of its tenant do. If
// namespaces are the tenants, each has its own number.
func TestAnswers_DoNotCountAFreedBlock(t *testing.T) {
	t.Parallel()
	a, clock, _ := remembered()
	begin(t, a, "stays")
	for name, end := range map[string]func(ledger.Holder){
		"never stored":          func(h ledger.Holder) { a.Freed(h) },
		"failed, freed at once": func(h ledger.Holder) { a.Fail(h); a.Freed(h); a.Freed(h) },
		"failed, freed later":   func(h ledger.Holder) { a.Fail(h); clock.Step(landing); a.Freed(h) },
		"seen, and deleted":     func(h ledger.Holder) { a.Stored(h); a.Freed(h) },
	} {
		if end(begin(t, a, name)); a.Count()["w"] != 1 {
			t.Errorf("%s: %d are counted, want the one that stays", name, a.Count()["w"])
		}
	}
	for i := range MaxUnseen {
		h := holder(fmt.Sprint(i))
		h.Cluster, h.Namespace = ledger.ByNamespace("k"), "one"
		if err := a.Begin(h); err != nil {
			t.Fatal(err)
		}
	}
	other := holder("c")
	other.Cluster, other.Namespace = ledger.ByNamespace("k"), "another"
	if err := a.Begin(other); err != nil {
		t.Errorf("Begin in another namespace = %v", err)
	}
}

// Answers hint at the block of a failed CREATE at once, and once more later, because its bind may be committed late.
// They hint at the block of any other CREATE when its claim cannot come any more.
func TestAnswers_HintAtBlocks(t *testing.T) {
	t.Parallel()
	a, clock, hinted := remembered()
	failed, lost, seen := begin(t, a, "failed"), begin(t, a, "lost"), begin(t, a, "seen")
	a.Stored(seen)
	a.Fail(failed)
	if len(*hinted) != 1 || (*hinted)[0] != failed {
		t.Errorf("hinted at %v, want %v", *hinted, failed)
	}
	a.Freed(failed)
	due := func(after time.Duration, want ...ledger.Holder) {
		t.Helper()
		clock.Step(after)
		got := a.due()
		if len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
			t.Errorf("due are %v, want %v", got, want)
		}
	}
	due(landing - time.Second)
	due(time.Second, failed)
	a.Freed(failed)
	if a.Unrecorded(failed) {
		t.Error("a CREATE is remembered whose block was found to be free twice")
	}
	due(Grace - landing - time.Second)
	due(time.Second, lost)
	due(landing, lost) // as no server could tell
	a.Freed(lost)
	due(time.Hour)
}
