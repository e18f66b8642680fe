package release

// This table decides, from facts alone, what becomes of a block whose holder may be gone. [Controller.settle] reads the
// facts. [Controller.act] looks up the action, and carries it out.

// verdict says whether a holder is gone. It follows from the answers of the servers, and from how the holder was last
// seen.
type verdict int

const (
	unknown     verdict = iota // no server can tell now
	alive                      // it exists
	unwitnessed                // it seems gone, but nobody saw its deletion: only its record can show that it existed
	gone                       // it does not exist
	left                       // it went with a binding of its workspace
)

// held is the kind of thing that a holder has in the ledger.
type held int

const (
	nothing  held = iota
	aPool         // a pool, a root or a child
	aRange        // a derived pool, which a range claim holds as a whole
	bound         // a block that is to be freed with its claim
	keeping       // a block that is to be retained, if it has a record
	retained      // a block that is retained
	expired       // a retained block whose lease is over
)

// recorded classifies the IPAllocation that was found under the names that the holder's record may have.
type recorded int

const (
	noRecord       recorded = iota
	ownRecord               // the holder's
	retainedRecord          // the holder's, retained: it names no claim any more
	formerRecord            // left over from a former claim of the name, whose block the holder has now
	strayRecord             // the holder's, but stored too late: the holder, or its binding, may have gone before
	otherRecord             // another claim's
)

// facts are all that the table considers about a holder that may be gone.
type facts struct {
	verdict verdict
	held    held
	record  recorded
	// somebody may show the block or range: a CREATE that may still succeed, or the claim that has the name now
	kept bool
}

// verb names the change to the block, pool or range of the holder.
type verb int

const (
	wait     verb = iota // ask again later
	leave                // do nothing
	withdraw             // end the waits of a claim that has no block
	drain                // drain the pool: it leaves the ledger when nobody holds a block of it
	unhold               // end the hold of the range, whose pool is retired when it is empty
	retain               // keep the block without its claim
	free                 // free the block, because its claim is gone
	vacate               // free the block, because its claim went with a binding
	expire               // free the block, because its lease is over
)

// action is the answer of the table. The record is deleted before the block is freed, so that no free address is
// published.
type action struct {
	drop bool // delete the record
	then verb
}

// rule applies to facts if each of its sets has the fact of the same name.
type rule struct {
	verdict, held, record, kept set
	action
}

// table is a list of rules. The first rule that applies decides.
type table []rule

// rules decide about every holder. They free no block in doubt, and no block that a claim may still show.
// [TestDecide_MatchesTheTables] has the action of every combination of facts.
var rules = table{
	{verdict: of(unknown), action: action{then: wait}},
	{verdict: of(alive), action: action{then: leave}},
	{
		verdict: of(unwitnessed), held: of(bound, keeping), record: of(strayRecord), kept: of(no),
		action: action{drop: true, then: leave},
	},
	{verdict: of(unwitnessed), record: unrecorded, action: action{then: leave}}, // for the sweep, which has a brake
	{held: of(aPool), action: action{then: drain}},
	{held: of(nothing), action: action{drop: true, then: withdraw}},
	{kept: of(yes), action: action{then: wait}},
	{held: of(aRange), action: action{then: unhold}},
	{held: of(keeping, retained), record: own, action: action{then: retain}},
	{verdict: of(gone), held: of(keeping, retained), record: of(formerRecord), action: action{then: retain}},
	{held: of(bound), record: of(retainedRecord), action: action{then: retain}},       // the ledger was restored
	{verdict: of(left), record: unrecorded, action: action{drop: true, then: vacate}}, // whatever its policy
	{held: of(expired), action: action{drop: true, then: expire}},
	{action: action{drop: true, then: free}},
}

var (
	own        = of(ownRecord, retainedRecord)
	unrecorded = of(noRecord, formerRecord, strayRecord, otherRecord)
)

// decide looks up the action for a holder.
func decide(f facts) action { return rules.decide(f) }

// decide returns the action of the first rule that applies. The action deletes no record if there is none, or if it is
// another claim's.
func (t table) decide(f facts) action {
	for _, r := range t {
		if r.verdict.has(int(f.verdict)) && r.held.has(int(f.held)) && r.record.has(int(f.record)) && r.kept.has(f.keeps()) {
			r.drop = r.drop && f.record != noRecord && f.record != otherRecord
			return r.action
		}
	}
	return action{then: wait}
}

const no, yes = 0, 1

func (f facts) keeps() int {
	if f.kept {
		return yes
	}
	return no
}

// set is a set of values of one fact. The empty set has all values.
type set uint

func of[T ~int](values ...T) (s set) {
	for _, v := range values {
		s |= 1 << v
	}
	return s
}

func (s set) has(value int) bool { return s == 0 || s&(1<<value) != 0 }
