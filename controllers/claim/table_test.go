package claim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The names of facts and actions in the drawing.
var (
	beings  = []string{"created", "twin", "stored", "denied", "leaving", "deleted"}
	targets = []string{"a block", "a range"}
	filling = []string{"blank", "filled"}
	finds   = []string{"unread", "none", "own", "others'", "retained", "ours", "spent", "forged", "doubtful"}
	verbs   = []string{
		"findRecord", "lookUp", "findShown", "prove", "askServer", "findLeft", "confirm", "regain", "inherit", "reuse", "drop", "settle",
		"refuse", "giveUp", "bind", "leave", "rest", "keep", "later", "takeBack", "publish",
	}
)

// ways draws all ways of a pass: its first action and, for each result of an action, the next action. For a denied
// claim, which a server did not know, the drawing ends at confirm. If a server then shows the claim, the pass goes on
// as for a stored claim.
const ways = `
created, a block, blank: findRecord
    none: findLeft
        none: bind ──▶ leave
        others': keep
    others': findLeft ──▶ keep
    retained: findLeft
        ours: later
        retained: refuse
created, a range, blank: findLeft
    none: bind ──▶ leave
    others': keep
twin, a block, blank: later
twin, a range, blank: later
stored, a block, blank: findRecord
    none: findLeft
        none: bind ──▶ publish
        others': settle ──▶ bind ──▶ publish
    others': findLeft ──▶ settle ──▶ bind ──▶ publish
    retained: lookUp
        none: findLeft
            ours: askServer
                none: keep
                own: reuse ──▶ askServer
                    none: keep
                    own: drop ──▶ publish
            retained: refuse
        own: findLeft
            ours: askServer
                none: keep
                own: reuse ──▶ askServer
                    none: keep
                    own: drop ──▶ publish
            retained: askServer
                none: keep
                own: giveUp
        own, and spent: askServer
            none: keep
            own: drop ──▶ publish
    own: lookUp
        none: askServer
            none: keep
            own: regain ──▶ publish
        own: publish
        retained: findShown ──▶ keep
stored, a block, filled: findRecord
    none: lookUp
        none: findShown
            none: prove
                doubtful: keep
                forged: takeBack
            others': askServer
                none: keep
                own: inherit ──▶ findLeft
                    none: publish
                    others': settle ──▶ publish
        own: askServer
            none: keep
            own: findLeft
                none: publish
                others': settle ──▶ publish
        retained: findShown
            none: keep
            others': askServer
                none: keep
                own: inherit ──▶ findLeft
                    none: publish
                    others': settle ──▶ publish
        own, as answered here: findLeft
            none: publish
            others': settle ──▶ publish
    others': lookUp
        none: findShown
            none: prove
                doubtful: keep
                forged: takeBack
            others': askServer
                none: keep
                own: inherit ──▶ findLeft ──▶ settle ──▶ publish
        own: askServer
            none: keep
            own: findLeft ──▶ settle ──▶ publish
        retained: findShown
            none: keep
            others': askServer
                none: keep
                own: inherit ──▶ findLeft ──▶ settle ──▶ publish
        own, as answered here: findLeft ──▶ settle ──▶ publish
    retained: lookUp
        none: findShown
            none: prove
                doubtful: keep
                forged: takeBack
            others': askServer
                none: keep
                own: inherit
                    inherited: findLeft ──▶ refuse
                    inherited, and spent: askServer
                        none: keep
                        own: drop ──▶ publish
        own: askServer
            none: keep
            own: findLeft ──▶ refuse
        own, and spent: askServer
            none: keep
            own: drop ──▶ publish
        retained: findShown
            none: keep
            others': askServer
                none: keep
                own: inherit
                    inherited: findLeft ──▶ refuse
                    inherited, and spent: askServer
                        none: keep
                        own: drop ──▶ publish
        own, as answered here: findLeft ──▶ refuse
    own: lookUp
        none: askServer
            none: keep
            own: regain ──▶ publish
        own: publish
        retained: findShown
            none: keep
            others': askServer
                none: keep
                own: inherit ──▶ publish
    own, and settled: rest
stored, a range, blank: lookUp
    none: findLeft ──▶ bind ──▶ publish
    own: findLeft ──▶ publish
stored, a range, filled: lookUp
    none: askServer
        none: keep
        own: regain
            regained: findLeft ──▶ publish
            refused: prove
                doubtful: keep
                forged: takeBack
    own: findLeft ──▶ publish
    own, and settled: rest
denied, a block, blank: findRecord
    none: confirm
    others': confirm
    retained: confirm
    own: confirm
denied, a block, filled: findRecord
    none: confirm
    others': confirm
    retained: confirm
    own: confirm
    own, and settled: rest
denied, a range, blank: lookUp
    none: confirm
    own: confirm
denied, a range, filled: lookUp
    none: confirm
    own: confirm
    own, and settled: rest
leaving, a block, blank: leave
leaving, a block, filled: leave
leaving, a range, blank: leave
leaving, a range, filled: leave
deleted, a block, blank: leave
deleted, a block, filled: findRecord
    none: lookUp
        none: findShown
            none: prove
                doubtful: keep
                forged: takeBack
            others': keep
        own: leave
        retained: leave
    others': lookUp
        none: findShown
            none: prove
                doubtful: keep
                forged: takeBack
            others': keep
        own: leave
        retained: leave
    retained: lookUp
        none: findShown
            none: prove
                doubtful: keep
                forged: takeBack
            others': keep
        own: leave
        own, and spent: leave
        retained: leave
    own: leave
deleted, a range, blank: leave
deleted, a range, filled: lookUp
    none: findShown ──▶ prove
        doubtful: keep
        forged: takeBack
    own: leave
    own, and settled: leave
`

// turned is a result of an action: its name in the drawing, and the facts after it.
type turned struct {
	as string
	to facts
}

// turns lists the possible results of an action. It lists none if the action ends the pass, or if the results are drawn
// elsewhere.
func turns(do verb, f facts) (ways []turned) {
	as := func(name string, change func(*facts)) {
		g := f
		change(&g)
		ways = append(ways, turned{name, g})
	}
	find := func(of func(*facts) *found, values ...found) {
		for _, v := range values {
			as(finds[v], func(g *facts) { *of(g) = v })
		}
	}
	gets := func(name string) {
		as(name, func(g *facts) { g.held = own })
		if f.record == retained { // the retained record may be left over
			as(name+", and spent", func(g *facts) { g.held, g.record, g.server = own, spent, unread })
		}
	}
	ranged, isStored := f.target == aRange, f.being == stored || f.being == denied
	switch do {
	case findRecord:
		record := func(g *facts) *found { return &g.record }
		find(record, none, others, retained)
		if f.being != created {
			find(record, own)
		}
		if isStored && f.showing == filled {
			as("own, and settled", func(g *facts) { g.record, g.showing = own, settled })
		}
	case lookUp:
		held := func(g *facts) *found { return &g.held }
		find(held, none)
		gets("own")
		switch {
		case ranged && f.showing == filled:
			as("own, and settled", func(g *facts) { g.held, g.showing = own, settled })
		case !ranged && (f.showing == filled || f.record == own):
			find(held, retained)
		}
		if !ranged && isStored && f.showing == filled && f.record != own {
			as("own, as answered here", func(g *facts) { g.held, g.server = own, own })
		}
	case findShown:
		if find(func(g *facts) *found { return &g.shown }, none); !ranged && f.showing != blank {
			find(func(g *facts) *found { return &g.shown }, others)
		}
	case prove:
		find(func(g *facts) *found { return &g.shown }, doubtful, forged)
	case askServer:
		find(func(g *facts) *found { return &g.server }, none, own)
	case findLeft:
		left := func(g *facts) *found { return &g.left }
		switch {
		case f.record == others:
			find(left, others)
		case f.record == retained && f.showing == blank:
			find(left, ours, retained)
		case f.record == retained:
			find(left, retained)
		case ranged && isStored:
			find(left, none)
		default:
			find(left, none, others)
		}
	case regain:
		if gets("regained"); ranged {
			as("refused", func(g *facts) { g.shown = none })
		}
	case inherit:
		gets("inherited")
	case reuse:
		as("reused", func(g *facts) { g.held, g.record, g.server = own, spent, unread })
	case drop:
		as("dropped", func(g *facts) { g.record, g.left = none, none })
	case settle:
		as("settled", func(g *facts) { g.left = none })
	case bind: // a CREATE reads its facts again, once, before it binds
		as("bound", func(g *facts) { g.held = own })
	default:
	}
	return ways
}

// drawWays draws the ways that go on from these facts: on one line as long as each action has one result.
func drawWays(b *strings.Builder, indent string, f facts) {
	do := decide(f)
	b.WriteString(verbs[do])
	switch next := turns(do, f); len(next) {
	case 0:
		b.WriteString("\n")
	case 1:
		b.WriteString(" ──▶ ")
		drawWays(b, indent, next[0].to)
	default:
		b.WriteString("\n")
		indent += "    "
		for _, way := range next {
			b.WriteString(indent + way.as + ": ")
			drawWays(b, indent, way.to)
		}
	}
}

// The ways of a pass through the table are those of the drawing, and no others.
func TestDecide_MatchesTheDrawing(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("\n")
	for i := range 6 * 2 * 2 {
		f := facts{being: being(i / 4), target: target(i / 2 % 2), showing: showing(i % 2)}
		if f.target == aRange {
			f.record = none
		}
		if possible(f) {
			fmt.Fprintf(&b, "%s, %s, %s: ", beings[f.being], targets[f.target], filling[f.showing])
			drawWays(&b, "", f)
		}
	}
	if diff := cmp.Diff(ways, b.String()); diff != "" {
		t.Errorf("the ways through the table (-want +got):\n%s", diff)
	}
}

// each calls do with every combination of facts that is possible.
func each(do func(facts)) {
	for i := range 6 * 2 * 3 * 6 * 4 * 5 * 3 * 5 {
		next := func(n int) (digit int) { digit, i = i%n, i/n; return digit }
		f := facts{being: being(next(6)), target: target(next(2)), showing: showing(next(3))}
		f.record = []found{unread, none, own, others, retained, spent}[next(6)]
		f.held = []found{unread, none, own, retained}[next(4)]
		f.shown = []found{unread, none, others, forged, doubtful}[next(5)]
		f.server = []found{unread, none, own}[next(3)]
		f.left = []found{unread, none, others, ours, retained}[next(5)]
		if possible(f) {
			do(f)
		}
	}
}

// possible reports whether facts can occur together. A claim that is being created shows nothing and has no record, and
// neither the ledger nor a server is asked about it. A claim that is settled has its block in the ledger.
func possible(f facts) bool {
	isNew := f.being == created || f.being == twin
	switch {
	case isNew && (f.showing != blank || f.record == own || f.record == spent || f.shown != unread || f.server != unread):
		return false
	case isNew && f.held != unread && f.held != own:
		return false
	case f.target == aRange && f.record != none, f.showing == settled && f.held != own && (f.held != unread || f.being == deleted):
		return false
	}
	return true
}

// safe says for some actions whether facts allow them: no claim may get a block or range that another one holds, and
// nothing may be freed or published in doubt.
var safe = map[verb]func(facts) bool{
	// No block is bound for a claim that shows one, or while a former claim of its name may have one.
	bind: func(f facts) bool { return f.showing == blank && f.record != own && f.held != own && f.left == none },
	// Nothing is taken back that the ledger has under the claim's ID or name, or that it may have had.
	takeBack: func(f facts) bool {
		return f.showing == filled && f.record != own && f.held == none && f.shown == forged
	},
	// No block is given a second time, freed, or taken from a former claim on the word of a cache alone.
	regain: func(f facts) bool {
		return f.held == none && f.server == own && (f.target == aRange || f.record == own)
	},
	inherit: func(f facts) bool { return f.held != own && f.shown == others && f.server == own },
	reuse:   func(f facts) bool { return f.showing == blank && f.left == ours && f.server == own },
	giveUp:  func(f facts) bool { return f.showing == blank && f.held == own && f.server == own },
	// A record that retains a block stays until the claim that got the block is about to have its own.
	drop:   func(f facts) bool { return f.record == spent && f.server == own },
	settle: func(f facts) bool { return f.left == others },
	// No record is written without a block in the ledger, beside another record, or for a claim not known to exist.
	publish: func(f facts) bool {
		known := f.target == aRange || f.record == own || f.showing == blank || f.server == own
		return f.held == own && known && (f.record == own || f.left == none && f.record != retained && f.record != spent)
	},
	rest: func(f facts) bool { return f.showing == settled },
}

// allowed lists the actions for claims in other states than stored.
var allowed = map[being][]verb{
	created: {findRecord, findLeft, bind, leave, keep, later, refuse}, // a CREATE takes, frees and publishes nothing of a former claim
	twin:    {later},
	denied:  {findRecord, lookUp, rest, confirm},
	leaving: {leave},
	deleted: {findRecord, lookUp, findShown, prove, leave, keep, takeBack}, // a deleted claim gets nothing
}

// Each action of the table is allowed for the state of the claim, and safe by the facts.
func TestDecide_TakesOnlySafeActions(t *testing.T) {
	t.Parallel()
	each(func(f facts) {
		do := decide(f)
		if may, limited := allowed[f.being]; limited && !slices.Contains(may, do) {
			t.Errorf("decide(%+v) = %s, which is not for a claim that is %s", f, verbs[do], beings[f.being])
		}
		if may := safe[do]; may != nil && !may(f) {
			t.Errorf("decide(%+v) = %s, which is not safe", f, verbs[do])
		}
	})
}

// No fact is read twice, and a claim that is settled costs no read of the ledger or of a server.
func TestDecide_ReadsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	each(func(f facts) {
		do := decide(f)
		again := map[verb]bool{
			findRecord: f.record != unread, lookUp: f.held != unread, findShown: f.shown != unread, askServer: f.server != unread, findLeft: f.left != unread,
		}
		if again[do] {
			t.Errorf("decide(%+v) = %s, once more", f, verbs[do])
		}
		if isStored := f.being == stored || f.being == denied; isStored && f.showing == settled && f.record == own && do != rest {
			t.Errorf("decide(%+v) = %s, though all is well", f, verbs[do])
		}
	})
}

// Each rule decides for some facts: without it, another action would follow.
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
