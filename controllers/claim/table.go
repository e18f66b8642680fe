package claim

// This table decides what a pass does, from facts alone. [pass.settle] carries the action out, and asks the table
// again, until an action ends the pass. A fact that costs a read is unread at first: the rule that needs it asks for
// the read.

// being says in which state the claim is.
type being int

const (
	created being = iota // it is being created
	twin                 // it is being created, and the cache shows a claim of its name
	stored
	denied  // the cache shows it as stored, and a server did not know it
	leaving // its workspace gives up the export
	deleted // it is being deleted
)

// target is the kind of thing that the claim asks for.
type target int

const (
	aBlock target = iota
	aRange        // a pool that the system has made: it has no record
)

// showing says whether the claim shows anything.
type showing int

const (
	blank   showing = iota
	filled          // a block, or a range
	settled         // its own block or range, and all is published
)

// found says which claim has the thing that a pass looked for.
type found int

const (
	unread found = iota // the pass has not looked
	none
	own      // the claim's
	others   // another claim's, of the same name
	retained // of a former claim of the name, which retains a block
	ours     // retained by a former claim for this claim
	spent    // the record of a former claim, whose block this claim has now
	forged   // nobody's, and the claim was never given it, for certain
	doubtful // nobody's, but the claim may have been given it
)

// facts decide what a pass does next.
type facts struct {
	being   being
	target  target
	showing showing
	record  found // in the place of its IPAllocation: none, own, others, retained, spent
	held    found // in the ledger, under its ID: none, own, retained
	// the prefix that it shows, under another ID of its name in the ledger: none, others; none becomes forged or doubtful
	shown  found
	server found // on a server: own if it shows the claim as the cache does, else none
	left   found // the block of a former claim of its name: none; others, which may still hold it; ours or retained
}

// verb is the next action of a pass.
type verb int

const (
	findRecord verb = iota // read facts.record, from the cache
	lookUp                 // read facts.held
	findShown              // read facts.shown
	prove                  // find out whether the claim was never given the prefix that it shows
	askServer              // read facts.server
	findLeft               // read facts.left
	confirm                // ask whether a claim exists that a server did not know
	regain                 // ask the ledger again for the prefix that the claim shows
	inherit                // take over the block that another ID of its name holds
	reuse                  // take over the block that a former claim retains
	drop                   // delete the record of a former claim whose block this claim has
	settle                 // settle the block of a former claim
	refuse                 // refuse the claim while a former claim retains a block
	giveUp                 // refuse the claim likewise, and free the block that it has
	bind                   // take a block, or hold a range, by class and pools

	leave    // do nothing: it ends the pass, as do all that follow
	rest     // note that all is well
	keep     // leave all as it is, in doubt
	later    // tell a CREATE that the reconcile serves its claim
	takeBack // clear the status
	publish  // write the record and the status
)

// rule applies to facts if each of its sets has the value of the fact.
type rule struct {
	being, target, showing, record, held, shown, server, left set

	then verb
}

// table is a list of rules. The first rule that applies decides.
type table []rule

// rules decide every pass over a claim, and every answer to a CREATE. [TestDecide_MatchesTheDrawing] draws all ways
// through them.
var rules = table{
	// Is there anything to do?
	{being: of(twin), then: later}, // if the cache is stale, the answer must not show the former block
	{being: of(leaving), then: leave},
	{being: of(deleted), showing: of(blank), then: leave},
	{record: of(unread), then: findRecord},
	{being: of(stored, denied), target: of(aRange), held: of(unread), then: lookUp}, // in memory
	{being: of(stored, denied), showing: of(settled), then: rest},
	{being: of(denied), then: confirm},
	{being: of(deleted), record: of(own), then: leave},

	// Where is the block that the claim shows, or has a record of? It is never exchanged for another.
	{being: of(stored, deleted), showing: of(filled), held: of(unread), then: lookUp},
	{being: of(stored), record: of(own, retained), held: of(unread), then: lookUp},
	{being: of(deleted), held: of(own, retained), then: leave},
	{server: of(none), then: keep},
	{record: of(own), held: of(none), server: of(unread), then: askServer},
	{record: of(own), held: of(none), then: regain},
	{
		being: of(stored), target: of(aRange), showing: of(filled), held: of(none), shown: of(unread),
		server: of(unread), then: askServer,
	},
	{being: of(stored), target: of(aRange), showing: of(filled), held: of(none), shown: of(unread), then: regain},
	{showing: of(filled), held: of(none), shown: of(unread), then: findShown},
	{held: of(retained), shown: of(unread), then: findShown},
	{being: of(deleted), shown: of(others), then: keep},
	{held: of(none, retained), shown: of(others), server: of(unread), then: askServer},
	{held: of(none, retained), shown: of(others), then: inherit},
	{showing: of(filled), held: of(none), shown: of(none), then: prove},
	{showing: of(filled), held: of(none), shown: of(forged), then: takeBack},
	{held: of(none, retained), shown: of(none, doubtful), then: keep},
	{
		target: of(aBlock), showing: of(filled), record: of(none, others, retained, spent),
		server: of(unread), then: askServer,
	},

	// Has a former claim of the name left anything? A CREATE changes nothing of that.
	{record: of(spent), server: of(unread), then: askServer}, // the ledger may have taken long to give the block
	{record: of(spent), then: drop},
	{record: of(none, others, retained), left: of(unread), then: findLeft},
	{being: of(created), left: of(others), then: keep},
	{being: of(created), left: of(ours), then: later},
	{left: of(others), then: settle},
	{showing: of(blank), left: of(ours), server: of(unread), then: askServer},
	{showing: of(blank), left: of(ours), then: reuse},
	{being: of(stored), showing: of(blank), held: of(own), left: of(retained), server: of(unread), then: askServer},
	{being: of(stored), showing: of(blank), held: of(own), left: of(retained), then: giveUp},
	{left: of(retained), then: refuse},

	{being: of(created), held: of(own), then: leave},
	{record: of(own), held: of(own), then: publish},
	{record: of(none, others), held: of(own), left: of(none), then: publish},
	{showing: of(blank), record: of(none, others), held: of(unread, none), left: of(none), then: bind},
}

// decide looks up the next action.
func decide(f facts) verb { return rules.decide(f) }

// decide finds the first rule that applies.
func (t table) decide(f facts) verb {
	for _, r := range t {
		if r.being.has(int(f.being)) && r.target.has(int(f.target)) && r.showing.has(int(f.showing)) &&
			r.record.has(int(f.record)) && r.held.has(int(f.held)) && r.shown.has(int(f.shown)) &&
			r.server.has(int(f.server)) && r.left.has(int(f.left)) {
			return r.then
		}
	}
	return keep
}

// set is a set of values of a fact. Zero stands for all values.
type set uint

func of[T ~int](values ...T) (s set) {
	for _, v := range values {
		s |= 1 << v
	}
	return s
}

func (s set) has(value int) bool { return s == 0 || s&(1<<value) != 0 }
