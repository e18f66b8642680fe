package release

// What becomes of a block whose holder may be gone is decided by this table, from facts alone. [Controller.settle]
// reads the facts, looks up the action, and carries it out.

// verdict says whether a holder is gone: by the word of the servers, and by the last sight of the holder.
type verdict int

const (
	unknown     verdict = iota // no server can tell now
	alive                      // it exists
	unwitnessed                // nobody saw its deletion, and nothing but a record can show that this server ever knew it
	gone                       // it does not exist
	left                       // it went with a binding of its workspace
)

// held is the kind of thing that a holder has in the ledger.
type held int

const (
	nothing  held = iota
	aPool         // a pool, a root or a child
	aRange        // a pool that the system has made, which it holds
	bound         // a block that is to be freed with its claim
	keeping       // a block that is to be retained, if it has a record
	retained      // a block that is retained
	expired       // a retained block whose lease is over
)

// recorded is the kind of record in the place of a holder's IPAllocation.
type recorded int

const (
	noRecord       recorded = iota
	ownRecord               // the holder's
	retainedRecord          // the holder's, without a claim by now
	formerRecord            // the retained one of a former claim of the name, whose block the holder has
	strayRecord             // the holder's, but stored after it had gone, or after a binding that it went with
	otherRecord             // that of another claim of the name
)

// facts decide about a holder that may be gone.
type facts struct {
	verdict verdict
	held    held
	record  recorded
	// somebody may show the block or range: a CREATE that may still succeed, or the claim that has the name now
	kept bool
}

// verb says how a block goes on.
type verb int

const (
	wait     verb = iota // ask again later
	leave                // nothing
	withdraw             // end the waits of a claim that has no block
	drain                // take the pool out of the ledger, once others hold no block of it
	unhold               // end the hold of a range, whose pool goes when it is empty
	retain               // keep the block without its claim
	free                 // free the block, as its claim is gone
	vacate               // free it, as its workspace has left
	expire               // free it, as its lease is over
)

// action is the answer of the table. The record goes before the block, so that no free address is still published.
type action struct {
	drop bool // delete the record
	then verb
}

// rule applies to facts that are in each of its sets.
type rule struct {
	verdict, held, record, kept set
	action
}

// table is rules that are read from the top: the first one that applies decides.
type table []rule

// rules decide about every holder. They free nothing in doubt, nor what somebody may show.
// [TestDecide_EveryCombination] has the action of every combination of facts.
var rules = table{
	{verdict: of(unknown), action: action{then: wait}},
	{verdict: of(alive), action: action{then: leave}},
	{verdict: of(unwitnessed), record: unrecorded, action: action{then: leave}}, // to the sweep, which has a brake
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

// decide finds the first rule that applies. It never deletes the record of another claim.
func (t table) decide(f facts) action {
	for _, r := range t {
		if r.verdict.has(int(f.verdict)) && r.held.has(int(f.held)) && r.record.has(int(f.record)) && r.kept.has(f.keeps()) {
			r.drop = r.drop && f.record != noRecord && f.record != otherRecord
			return r.action
		}
	}
	return action{then: wait}
}

const yes = 1

func (f facts) keeps() int {
	if f.kept {
		return yes
	}
	return 0
}

// set is a set of values of a fact; empty: all of them.
type set uint

func of[T ~int](values ...T) (s set) {
	for _, v := range values {
		s |= 1 << v
	}
	return s
}

func (s set) has(value int) bool { return s == 0 || s&(1<<value) != 0 }
