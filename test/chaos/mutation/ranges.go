package mutation

// ranges are the mutants of the DELETEs of ranges.
var ranges = []Mutant{
	{
		Name:  "a range stays closed though an address space refuses its release",
		File:  "allocator/derived.go",
		Old:   "if first && errors.Is(err, ledger.ErrPoolInUse) {",
		New:   "if false {",
		Suite: ofDerived,
	},
	{
		Name:  "a late look opens a range that was closed again since",
		File:  "allocator/derived.go",
		Old:   "if p.Closed() && !p.Derived.Releasing.Equal(store.Stamped(until)) {",
		New:   "if false {",
		Suite: ofDerived,
	},
	{
		Name:  "a CREATE opens a range that was closed again after its look",
		File:  "controllers/derived/closing.go",
		Old:   "c.reopen(ctx, p, before.Derived.Releasing)",
		New:   "c.reopen(ctx, p, p.Derived.Releasing)",
		Suite: Suite{Package: "./controllers/derived", Tests: "TestComplete_Leaves"},
	},
	{
		Name:  "a DELETE that is refused leaves the range closed",
		File:  "controllers/derived/closing.go",
		Old:   "if err != nil && first {",
		New:   "if err != nil && !first {",
		Suite: Suite{Package: "./controllers/derived", Tests: "TestCloseRange_Opens"},
	},
	{
		Name:  "the IPPool of a range goes that was opened meanwhile",
		File:  "controllers/derived/keeper.go",
		Old:   "return ok && (!now.Closed() || !now",
		New:   "return ok && (!now",
		Suite: Suite{Package: "./controllers/derived", Tests: "TestCloseRange_Leaves"},
	},
	{
		Name:  "one DELETE asks for every claim inside a range",
		File:  "controllers/derived/inside.go",
		Old:   "min(len(inside), atOnce, g.asks)",
		New:   "min(len(inside), looked)",
		Suite: Suite{Package: "./controllers/derived", Tests: "TestCloseRange_Asks"},
	},
	{
		Name:  "a dry run reads every idle pool below a range",
		File:  "controllers/derived/inside.go",
		Old:   "if !k.Ledger.Pools.MayHold(q.ID) {",
		New:   "if false {",
		Suite: Suite{Package: "./controllers/derived", Tests: "TestCloseRange_Reads"},
	},
	{
		Name:  "a pool with a key that cannot be read is taken for empty",
		File:  "allocator/pools.go",
		Old:   "\t\treturn damaged\n",
		New:   "\t\treturn false\n",
		Suite: Suite{Tests: "TestPools_MayHold"},
	},
	{
		Name:  "each DELETE of a claim without its range lists all pools",
		File:  "controllers/internal/live/fresh.go",
		Old:   "r.runs.get(ctx)",
		New:   "r.runs.read(ctx)",
		Suite: Suite{Package: "./controllers/adopt", Tests: "TestComplete_Shares"},
	},
	{
		Name:  "a large DELETE that waits keeps its slot",
		File:  "controllers/door/server.go",
		Old:   "if p.light || slots == p.slots.small {",
		New:   "if slots == p.slots.small {",
		Suite: Suite{Package: "./controllers/door", Tests: "TestCloseRange_Large"},
	},
	{
		Name:  "a DELETE that waits keeps all of its object",
		File:  "controllers/door/delete.go",
		Old:   "\tlighten(claim)\n",
		New:   "",
		Suite: Suite{Package: "./controllers/door", Tests: "TestCloseRange_Large"},
	},
	{
		Name:  "dry runs of DELETEs have no share of their own",
		File:  "controllers/door/delete.go",
		Old:   "ctx = s.dryRuns.among(ctx)",
		New:   "_ = s.dryRuns",
		Suite: Suite{Package: "./controllers/door", Tests: "TestCloseRange_Few"},
	},
}
