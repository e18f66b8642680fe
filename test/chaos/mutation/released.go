package mutation

// ofFailed are the tests of CREATEs for a range that fail, and ofPublished those of the IPPools of derived pools.
var (
	ofFailed    = Suite{Package: "./controllers/claim", Tests: "TestRange_IsGivenBackByACreateThatFails"}
	ofPublished = Suite{Package: "./controllers/derived", Tests: "TestPublish_"}
)

// released are the mutants that free a block which somebody has, or give it to another.
var released = []Mutant{
	{
		Name:  "a record that was stored after its claim had gone is retained",
		File:  "controllers/release/facts.go",
		Old:   "own && (seen.precedes(found) || s.strays(found, seen.claim))",
		New:   "own && s.strays(found, seen.claim)",
		Suite: Suite{Package: "./controllers/release", Tests: "TestPromise_RetainedIsWhatWasPublished"},
	},
	{
		Name:  "a record that was changed after its claim had gone is taken for one that was stored then",
		File:  "controllers/release/hint.go",
		Old:   " || own.Generation > 1 {",
		New:   " {",
		Suite: Suite{Package: "./controllers/release", Tests: "TestPromise_RetainedIsWhatWasPublished"},
	},
	{
		Name:  "a record is stored for a claim that the cache has seen to go",
		File:  "controllers/claim/publish.go",
		Old:   "shown(ctx, s.client, s.claim); err != nil {",
		New:   "shown(ctx, s.client, s.claim); err != nil && false {",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestReconcile_ForgetsAClaim"},
	},
	{
		Name:  "a claim that its server denies is said to be missed before the cache had its time",
		File:  "controllers/claim/memory.go",
		Old:   "\t\tif lasting {\n",
		New:   "\t\tif true {\n",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestConfirm"},
	},
	{
		Name:  "a retained block is lost with a claim that reused it and went at once",
		File:  "controllers/release/table.go",
		Old:   "\t{verdict: of(gone), held: of(keeping, retained), record: of(formerRecord), action: action{then: retain}},\n",
		New:   "",
		Suite: Suite{Package: "./controllers/release", Tests: "TestDecide_EveryCombination|TestLease_Reused"},
	},
	{
		Name:  "waits for etcd make the rounds of the sweep longer",
		File:  "controllers/sweep/round.go",
		Old:   "r.took += min(now.Sub(asked), stall)",
		New:   "r.took += now.Sub(asked)",
		Suite: Suite{Package: "./controllers/sweep", Tests: "TestRound_WaitsAreNoWork"},
	},
	{
		Name:  "a claim that is Terminating closes its range again and again",
		File:  "controllers/derived/closing.go",
		Old:   "\tif !claim.DeletionTimestamp.IsZero() {\n\t\treturn \"\", nil\n\t}\n",
		New:   "",
		Suite: Suite{Package: "./controllers/derived", Tests: "TestCloseRange_IgnoresATerminatingClaim"},
	},
	{
		Name:  "a retained block is freed while a CREATE may succeed that was told it",
		File:  "controllers/release/table.go",
		Old:   "{held: of(expired), inFlight: of(yes), action: action{then: wait}}",
		New:   "{held: of(expired), inFlight: of(yes), action: action{drop: true, then: expire}}",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a block is freed by the word of a server that has not its record",
		File:  "controllers/release/facts.go",
		Old:   "exactly(seen.record)); err != nil {",
		New:   "exactly(seen.record)); err != nil && false {",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "the block of a claim that a list left out is freed without the brake of the sweep",
		File:  "controllers/release/facts.go",
		Old:   "if c.unseen(s) && !c.HasDeparted(s.Cluster) {",
		New:   "if false {",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "the DELETE of a range frees what a restored kcp has never known",
		File:  "controllers/derived/inside.go",
		Old:   "g.Releases.SettleWitnessed(ctx, o.Holder)",
		New:   "g.Releases.Settle(ctx, o.Holder)",
		Suite: Suite{Package: "./controllers/derived", Tests: "TestCloseRange_FreesNothing"},
	},
	{
		Name:  "a CREATE takes a range from a claim that a restored kcp has never known",
		File:  "controllers/claim/range.go",
		Old:   "d.Releases.SettleWitnessed(ctx, by)",
		New:   "d.Releases.Settle(ctx, by)",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestRange_HeldByAnother"},
	},
	{
		Name:  "a request frees a block though nobody saw its claim being deleted",
		File:  "controllers/release/facts.go",
		Old:   "return seen.missed || s.origin == requested && seen.number == 0",
		New:   "return seen.missed",
		Suite: Suite{Package: "./controllers/release", Tests: "TestSettleWitnessed"},
	},
	{
		Name:  "a range is said to be in use by a claim that may be gone",
		File:  "controllers/release/act.go",
		Old:   "settled = f.verdict == alive || s.origin == hinted || !s.known",
		New:   "settled = true",
		Suite: Suite{Package: "./controllers/release", Tests: "TestSettleWitnessed"},
	},
	{
		Name:  "the holder of a block is looked up by the name in a hint",
		File:  "controllers/release/settle.go",
		Old:   "= b.Holder, true, b.Prefix",
		New:   "= s.Holder, true, b.Prefix",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a census from before a block was bound speaks of its holder",
		File:  "controllers/release/census.go",
		Old:   "return missed, ok && s.revision <= missed.revision",
		New:   "return missed, ok",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a block passes to a claim that shows its prefix in another domain",
		File:  "controllers/internal/promise/keeper.go",
		Old:   "own.Space != b.Space",
		New:   "false",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a block is freed because a cache shows no claim with it",
		File:  "controllers/claim/bind.go",
		Old:   "(now == nil || now.Status.AllocatedCIDR != block) {",
		New:   "(now != nil && false) {",
		Suite: Suite{Package: "./controllers/claim"},
	},
	{
		Name:  "a record counts for a claim that it does not name",
		File:  "controllers/internal/record/record.go",
		Old:   "holder == claim.Name",
		New:   "holder != \"\"",
		Suite: Suite{Package: "./controllers/internal/record"},
	},
	{
		Name:  "a range stays held by a CREATE that has failed",
		File:  "controllers/claim/range.go",
		Old:   "if d.held.ID == \"\" {",
		New:   "if true {",
		Suite: ofFailed,
	},
	{
		Name:  "a CREATE that fails ends the hold of one that was answered",
		File:  "controllers/claim/range.go",
		Old:   "return ok && (",
		New:   "return ok || (",
		Suite: ofFailed,
	},
	{
		Name:  "a CREATE names an IPPool that went with a DELETE that has failed",
		File:  "controllers/derived/keeper.go",
		Old:   "!k.published.reopened(p.ID, k.Clock.Now()) && ",
		New:   "",
		Suite: ofPublished,
	},
	{
		Name:  "of two pools of one name, one keeps the other from its claims",
		File:  "controllers/derived/keeper.go",
		Old:   "len(k.Ledger.Derived.Named(p.Cluster, p.Name)) > 1",
		New:   "false",
		Suite: ofPublished,
	},
}
