package release

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// marks has the sign of each verb in the tables below. A "-" before the sign says that the record is deleted first.
var marks = map[verb]string{
	wait: "?", leave: ".", withdraw: "o", drain: "d", unhold: "n", retain: "r", free: "f", vacate: "v", expire: "e",
}

// tables has the actions for each verdict that leaves a choice. A line is for one kind of thing that a holder may have.
// A group in a line is for one kind of record: none, the holder's own, its own without a claim, one of a former claim
// whose block the holder has, its own that was stored too late, that of another claim. The second action of a group is
// for a block, or a range, that somebody may show.
var tables = map[verdict]string{
	unwitnessed: `
nothing     . . | -o-o | -o-o |  . . |  . . |  . .
a pool      . . |  d d |  d d |  . . |  . . |  . .
a range     . . |  n ? |  n ? |  . . |  . . |  . .
bound       . . | -f ? |  r ? |  . . | -. . |  . .
keeping     . . |  r ? |  r ? |  . . | -. . |  . .
retained    . . |  r ? |  r ? |  . . |  . . |  . .
expired     . . | -e ? | -e ? |  . . |  . . |  . .
`,
	gone: `
nothing     o o | -o-o | -o-o | -o-o | -o-o |  o o
a pool      d d |  d d |  d d |  d d |  d d |  d d
a range     n ? |  n ? |  n ? |  n ? |  n ? |  n ?
bound       f ? | -f ? |  r ? | -f ? | -f ? |  f ?
keeping     f ? |  r ? |  r ? |  r ? | -f ? |  f ?
retained    f ? |  r ? |  r ? |  r ? | -f ? |  f ?
expired     e ? | -e ? | -e ? | -e ? | -e ? |  e ?
`,
	left: `
nothing     o o | -o-o | -o-o | -o-o | -o-o |  o o
a pool      d d |  d d |  d d |  d d |  d d |  d d
a range     n ? |  n ? |  n ? |  n ? |  n ? |  n ?
bound       v ? | -f ? |  r ? | -v ? | -v ? |  v ?
keeping     v ? |  r ? |  r ? | -v ? | -v ? |  v ?
retained    v ? |  r ? |  r ? | -v ? | -v ? |  v ?
expired     v ? | -e ? | -e ? | -v ? | -v ? |  v ?
`,
}

var names = map[held]string{
	nothing: "nothing", aPool: "a pool", aRange: "a range", bound: "bound", keeping: "keeping", retained: "retained", expired: "expired",
}

// each calls do with every combination of facts.
func each(do func(facts)) {
	for v := unknown; v <= left; v++ {
		for h := nothing; h <= expired; h++ {
			for r := noRecord; r <= otherRecord; r++ {
				do(facts{v, h, r, false})
				do(facts{v, h, r, true})
			}
		}
	}
}

// TestDecide_MatchesTheTables compares the actions of all combinations of facts with the tables.
func TestDecide_MatchesTheTables(t *testing.T) {
	t.Parallel()
	got := map[verdict]*strings.Builder{unwitnessed: {}, gone: {}, left: {}}
	each(func(f facts) {
		is, b := decide(f), got[f.verdict]
		if b == nil {
			if want := (action{then: map[verdict]verb{unknown: wait, alive: leave}[f.verdict]}); is != want {
				t.Errorf("decide(%+v) = %+v, want %+v", f, is, want)
			}
			return
		}
		switch {
		case f.record == noRecord && !f.kept:
			fmt.Fprintf(b, "\n%-11s", names[f.held])
		case !f.kept:
			b.WriteString(" | ")
		}
		b.WriteString(map[bool]string{true: "-", false: " "}[is.drop] + marks[is.then])
	})
	for v, table := range tables {
		if diff := cmp.Diff(table, got[v].String()+"\n"); diff != "" {
			t.Errorf("verdict %d (-want +got):\n%s", v, diff)
		}
	}
}

// TestDecide_FreesNothingInDoubt: a block is freed only if its holder is gone and nobody may show it, and the record of
// another claim is never deleted.
func TestDecide_FreesNothingInDoubt(t *testing.T) {
	t.Parallel()
	frees := map[verb]bool{free: true, vacate: true, expire: true, unhold: true}
	each(func(f facts) {
		is := decide(f)
		doubt := f.verdict == unknown || f.verdict == alive || f.verdict == unwitnessed && f.record != ownRecord && f.record != retainedRecord
		if doubt && (is.drop && f.record != strayRecord || is.then != wait && is.then != leave) {
			t.Errorf("decide(%+v) = %+v, in doubt", f, is)
		}
		if frees[is.then] && (f.kept || f.held == nothing || f.held == aPool || (f.held == aRange) != (is.then == unhold)) {
			t.Errorf("decide(%+v) = %+v, though the block is not to be freed", f, is)
		}
		if is.drop && (f.record == noRecord || f.record == otherRecord) {
			t.Errorf("decide(%+v) = %+v, though the holder has no record", f, is)
		}
	})
}

// TestDecide_NeedsEveryRule: without any one of the rules, some combination of facts has another action.
func TestDecide_NeedsEveryRule(t *testing.T) {
	t.Parallel()
	for i, r := range rules {
		without, needed := slices.Delete(slices.Clone(rules), i, i+1), false
		each(func(f facts) { needed = needed || without.decide(f) != decide(f) })
		if !needed {
			t.Errorf("rule %d, %+v, decides nothing", i, r)
		}
	}
}
