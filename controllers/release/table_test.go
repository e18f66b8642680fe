package release

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// marks of the verbs in the tables below. A "-" before one says that the record is deleted first.
var marks = map[verb]string{
	wait: "?", leave: ".", withdraw: "o", drain: "d", unhold: "n", retain: "r", give: "g", free: "f", supersede: "s", vacate: "v", expire: "e",
}

// tables have a line for each thing that a holder may have, and below it one for the same while a CREATE is in flight. A
// line has a group for each kind of record: none, its own, its own without a claim, that of a former claim whose block
// it has, its own that came too late, that of another claim. A group has an action for each share of a later claim: none, own, undecided, due.
var tables = map[verdict]string{
	unwitnessed: `
nothing     . . . . | -o-o-o-o | -o-o-o-o |  . . . . |  . . . . |  . . . .
            . . . . | -o-o-o-o | -o-o-o-o |  . . . . |  . . . . |  . . . .
a pool      . . . . |  d d d d |  d d d d |  . . . . |  . . . . |  . . . .
            . . . . |  d d d d |  d d d d |  . . . . |  . . . . |  . . . .
a range     . . . . |  n n n g |  n n n g |  . . . . |  . . . . |  . . . .
            . . . . |  ? ? ? g |  ? ? ? g |  . . . . |  . . . . |  . . . .
reserved    . . . . | -f-s-?-g |  r r r r |  . . . . |  . . . . |  . . . .
            . . . . | -?-?-?-g |  r r r r |  . . . . |  . . . . |  . . . .
bound       . . . . | -f-s-?-g |  r r r r |  . . . . |  . . . . |  . . . .
            . . . . | -?-?-?-? |  r r r r |  . . . . |  . . . . |  . . . .
keeping     . . . . |  r r r r |  r r r r |  . . . . |  . . . . |  . . . .
            . . . . |  r r r r |  r r r r |  . . . . |  . . . . |  . . . .
retained    . . . . |  r r r r |  r r r r |  . . . . |  . . . . |  . . . .
            . . . . |  r r r r |  r r r r |  . . . . |  . . . . |  . . . .
expired     . . . . | -e-s-?-g | -e-s-?-g |  . . . . |  . . . . |  . . . .
            . . . . |  ? ? ? ? |  ? ? ? ? |  . . . . |  . . . . |  . . . .
`,
	gone: `
nothing     o o o o | -o-o-o-o | -o-o-o-o | -o-o-o-o | -o-o-o-o |  o o o o
            o o o o | -o-o-o-o | -o-o-o-o | -o-o-o-o | -o-o-o-o |  o o o o
a pool      d d d d |  d d d d |  d d d d |  d d d d |  d d d d |  d d d d
            d d d d |  d d d d |  d d d d |  d d d d |  d d d d |  d d d d
a range     n n n g |  n n n g |  n n n g |  n n n g |  n n n g |  n n n g
            ? ? ? g |  ? ? ? g |  ? ? ? g |  ? ? ? g |  ? ? ? g |  ? ? ? g
reserved    f s ? g | -f-s-?-g |  r r r r | -f-s-?-g | -f-s-?-g |  f s ? g
            ? ? ? g | -?-?-?-g |  r r r r | -?-?-?-g | -?-?-?-g |  ? ? ? g
bound       f s ? g | -f-s-?-g |  r r r r | -f-s-?-g | -f-s-?-g |  f s ? g
            ? ? ? ? | -?-?-?-? |  r r r r | -?-?-?-? | -?-?-?-? |  ? ? ? ?
keeping     f s ? g |  r r r r |  r r r r |  r r r r | -f-s-?-g |  f s ? g
            ? ? ? ? |  r r r r |  r r r r |  r r r r | -?-?-?-? |  ? ? ? ?
retained    f s ? g |  r r r r |  r r r r |  r r r r | -f-s-?-g |  f s ? g
            ? ? ? g |  r r r r |  r r r r |  r r r r | -?-?-?-g |  ? ? ? g
expired     e s ? g | -e-s-?-g | -e-s-?-g | -e-s-?-g | -e-s-?-g |  e s ? g
            ? ? ? ? |  ? ? ? ? |  ? ? ? ? |  ? ? ? ? |  ? ? ? ? |  ? ? ? ?
`,
	left: `
nothing     o o o o | -o-o-o-o | -o-o-o-o | -o-o-o-o | -o-o-o-o |  o o o o
            o o o o | -o-o-o-o | -o-o-o-o | -o-o-o-o | -o-o-o-o |  o o o o
a pool      d d d d |  d d d d |  d d d d |  d d d d |  d d d d |  d d d d
            d d d d |  d d d d |  d d d d |  d d d d |  d d d d |  d d d d
a range     n n n g |  n n n g |  n n n g |  n n n g |  n n n g |  n n n g
            ? ? ? g |  ? ? ? g |  ? ? ? g |  ? ? ? g |  ? ? ? g |  ? ? ? g
reserved    v s ? g | -f-s-?-g |  r r r r | -v-s-?-g | -v-s-?-g |  v s ? g
            ? ? ? g | -?-?-?-g |  r r r r | -?-?-?-g | -?-?-?-g |  ? ? ? g
bound       v s ? g | -f-s-?-g |  r r r r | -v-s-?-g | -v-s-?-g |  v s ? g
            ? ? ? ? | -?-?-?-? |  r r r r | -?-?-?-? | -?-?-?-? |  ? ? ? ?
keeping     v s ? g |  r r r r |  r r r r | -v-s-?-g | -v-s-?-g |  v s ? g
            ? ? ? ? |  r r r r |  r r r r | -?-?-?-? | -?-?-?-? |  ? ? ? ?
retained    v s ? g |  r r r r |  r r r r | -v-s-?-g | -v-s-?-g |  v s ? g
            ? ? ? g |  r r r r |  r r r r | -?-?-?-g | -?-?-?-g |  ? ? ? g
expired     v s ? g | -e-s-?-g | -e-s-?-g | -v-s-?-g | -v-s-?-g |  v s ? g
            ? ? ? ? |  ? ? ? ? |  ? ? ? ? |  ? ? ? ? |  ? ? ? ? |  ? ? ? ?
`,
}

var names = map[held]string{
	nothing: "nothing", aPool: "a pool", aRange: "a range", reserved: "reserved", bound: "bound", keeping: "keeping", retained: "retained", expired: "expired",
}

// each calls do with every combination of facts.
func each(do func(facts)) {
	for v := unknown; v <= left; v++ {
		for h := nothing; h <= expired; h++ {
			for _, flight := range []bool{false, true} {
				for r := noRecord; r <= otherRecord; r++ {
					for share := promise.None; share <= promise.Due; share++ {
						do(facts{v, h, r, share, flight})
					}
				}
			}
		}
	}
}

// TestDecide_EveryCombination compares the actions of all combinations of facts with the tables.
func TestDecide_EveryCombination(t *testing.T) {
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
		switch first := f.later == promise.None; {
		case first && f.record == noRecord && f.inFlight:
			fmt.Fprintf(b, "\n%-11s", "")
		case first && f.record == noRecord:
			fmt.Fprintf(b, "\n%-11s", names[f.held])
		case first:
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

// TestDecide_NothingIsFreedInDoubt: a block is freed only if its holder is gone, no CREATE is in flight, and no other
// claim is to have it; and a record that is another claim's is never deleted.
func TestDecide_NothingIsFreedInDoubt(t *testing.T) {
	t.Parallel()
	frees := map[verb]bool{free: true, supersede: true, vacate: true, expire: true}
	each(func(f facts) {
		is := decide(f)
		doubt := f.verdict == unknown || f.verdict == alive || f.verdict == unwitnessed && f.record != ownRecord && f.record != retainedRecord
		if doubt && (is.drop || is.then != wait && is.then != leave) {
			t.Errorf("decide(%+v) = %+v, in doubt", f, is)
		}
		if frees[is.then] && (f.inFlight || f.later == promise.Due || f.later == promise.Undecided || f.held == nothing || f.held == aPool || f.held == aRange) {
			t.Errorf("decide(%+v) = %+v, though the block is not to be freed", f, is)
		}
		if is.drop && (f.record == noRecord || f.record == otherRecord) {
			t.Errorf("decide(%+v) = %+v, though the holder has no record", f, is)
		}
	})
}

// TestDecide_EveryRuleIsNeeded: there is no rule that others always come before.
func TestDecide_EveryRuleIsNeeded(t *testing.T) {
	t.Parallel()
	for i, r := range rules {
		without, needed := slices.Delete(slices.Clone(rules), i, i+1), false
		each(func(f facts) { needed = needed || without.decide(f) != decide(f) })
		if !needed {
			t.Errorf("rule %d, %+v, decides nothing", i, r)
		}
	}
}
