package mutation

// ofRetired are the tests of pools that were retired before a transaction on them is answered, or comes.
var ofRetired = Suite{Package: "./allocator", Args: []string{"-test.run=TestReread_APoolThatWas"}}

// absence are the mutants that believe too much: of an object that is not shown, or of a list that a cache has cut.
var absence = []Mutant{
	{
		Name:  "the ledger takes any identity of the export for its own",
		File:  "allocator/internal/store/origin.go",
		Old:   "Cmps(Absent(key))",
		New:   "nil",
		Suite: Suite{Package: "./allocator", Args: []string{"-test.run=TestOrigin"}},
	},
	{
		Name:  "memory goes on with a key that was damaged by hand while the watch was cut off",
		File:  "allocator/internal/engine/snapshot.go",
		Old:   "\t\ts.Stale = im.doubts(s, fresh)\n",
		New:   "",
		Suite: Suite{Package: "./allocator", Args: []string{"-test.run=TestUnreadable"}},
	},
	{
		Name:  "an answer brings a space back that has gone before the ledger was read again",
		File:  "allocator/internal/space/reread.go",
		Old:   "\ts.Known = revision\n",
		New:   "",
		Suite: ofRetired,
	},
	{
		Name:  "a space that a reading of the ledger does not have was never there",
		File:  "allocator/internal/space/reread.go",
		Old:   "\ts.draft.skip(store.Head{})\n",
		New:   "",
		Suite: ofRetired,
	},
	{
		Name:  "a claim counts as gone that an export of another identity does not show",
		File:  "controllers/internal/live/holder.go",
		Old:   "err = r.shows(ctx) //",
		New:   "err = nil //",
		Suite: Suite{Package: "./controllers/internal/live"},
	},
	{
		Name:  "a patch removes the finalizers that a cache has cut off",
		File:  "controllers/internal/patch/patch.go",
		Old:   "len(h.before.GetFinalizers()) > ipamv1alpha1.MaxFinalizers",
		New:   "false",
		Suite: Suite{Package: "./controllers/internal/patch"},
	},
	{
		Name:  "a workspace that nobody saw leave is gone after a moment",
		File:  "controllers/release/census.go",
		Old:   "return unseen * c.options.Absence",
		New:   "return c.options.Absence",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a workspace that is bound is missed since before that",
		File:  "controllers/release/census.go",
		Old:   "return next.Bound[cluster] })",
		New:   "return false })",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a claim that goes with its binding is retained for the next one",
		File:  "controllers/release/facts.go",
		Old:   "(answer.Unserved || ",
		New:   "(",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a binding that goes counts as one that stays",
		File:  "controllers/internal/live/holder.go",
		Old:   "now.since.IsZero() || now.leaves",
		New:   "now.since.IsZero()",
		Suite: Suite{Package: "./controllers/internal/live"},
	},
	{
		Name:  "a sweep that is to free nothing frees as much as by default",
		File:  "cmd/ipam-controller/options.go",
		Old:   "limited.MaxFrees == 0",
		New:   "false",
		Suite: Suite{Package: "./cmd/ipam-controller", Args: []string{"-test.run=TestSweep_"}},
	},
	{
		Name:  "deletions that were seen put the brake of a sweep on",
		File:  "controllers/sweep/round.go",
		Old:   "s.Releases.SawDeleted(b.Holder.Claim)",
		New:   "false",
		Suite: Suite{Package: "./controllers/sweep"},
	},
	{
		Name:  "a claim that a list left out was seen being deleted",
		File:  "controllers/release/hint.go",
		Old:   "return seen.claim != nil && !seen.missed",
		New:   "return seen.claim != nil",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a record that was stored under the next binding holds its block for ever",
		File:  "controllers/release/facts.go",
		Old:   "if own && s.strays(",
		New:   "if false && s.strays(",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a claim that a list left out takes the retained block of a former one",
		File:  "controllers/release/facts.go",
		Old:   "err == nil && v != unwitnessed",
		New:   "err == nil",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a pool has no cooldown while a list leaves its workspace out",
		File:  "controllers/internal/catalog/catalog.go",
		Old:   "c.Directory.Hidden(cluster, live.Absence)",
		New:   "c.Directory.Hidden(cluster, 0*live.Absence)",
		Suite: Suite{Package: "./controllers/internal/catalog"},
	},
	{
		Name:  "a pool has no cooldown before its endpoint has listed who is bound",
		File:  "controllers/internal/catalog/catalog.go",
		Old:   "c.Listed != nil && !c.Listed()",
		New:   "false",
		Suite: Suite{Package: "./controllers/internal/catalog"},
	},
	{
		Name:  "the idle pools of a workspace go while a list leaves it out",
		File:  "controllers/derived/idle.go",
		Old:   " && !c.Catalog.MayBeBound(of)",
		New:   "",
		Suite: Suite{Package: "./controllers/derived"},
	},
}
