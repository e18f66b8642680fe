package mutation

// scarce breaks the order in which few addresses are given, and the figures that a pool shows.
var scarce = []Mutant{
	{
		Name:  "a claim for exactly what was freed waits behind older ones",
		File:  "allocator/internal/space/candidates.go",
		Old:   "if w.turn.lane(exact) != nil {",
		New:   "if false {",
		Suite: Suite{Package: "./allocator/internal/space", Tests: "TestRoom_AClaimForTheFreedBlock"},
	},
	{
		Name:  "any number of claims for addresses comes first",
		File:  "allocator/internal/space/waiter.go",
		Old:   "return left > 0",
		New:   "return true",
		Suite: Suite{Package: "./allocator/internal/space", Tests: "TestRoom_FewClaimsForAddresses"},
	},
	{
		Name:  "behind a limit, a claim for exactly what was freed waits behind older ones",
		File:  "allocator/internal/space/suspended.go",
		Old:   "of.exact && r.Pools.Frozen() == NotFrozen",
		New:   "false",
		Suite: Suite{Package: "./allocator/internal/space", Tests: "TestSuspended_AClaimForTheFreedBlock"},
	},
	{
		Name:  "a pool at the border of nearly full is told about again and again",
		File:  "controllers/pool/fullness.go",
		Old:   "was != \"\" && atLeast(notNearlyFull)",
		New:   "false",
		Suite: Suite{Package: "./controllers/pool", Tests: "TestFullness_"},
	},
	{
		Name:  "a pool is told about before its status remembers it",
		File:  "controllers/pool/reconciler.go",
		Old:   "err == nil && p.news != nil",
		New:   "p.news != nil",
		Suite: Suite{Package: "./controllers/pool", Tests: "TestReconcile_TellsOfAFullPool"},
	},
	{
		Name:  "a claim that waits for another pool leaves all CREATEs of its workspace without an answer",
		File:  "controllers/claim/order.go",
		Old:   "return !knows",
		New:   "return true",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestOrder_"},
	},
	{
		Name:  "a claim of a new class is ahead of older ones that do not know its parents yet",
		File:  "controllers/claim/order.go",
		Old:   "append(of, topic{kind: classTopic, name: d.class})",
		New:   "of",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestOrder_"},
	},
	{
		Name:  "a pool keeps the figures of an older copy of kcp",
		File:  "controllers/pool/controller.go",
		Old:   "|| is.Changes < was.Changes",
		New:   "",
		Suite: Suite{Package: "./controllers/pool", Tests: "TestOnPool_"},
	},
	{
		Name:  "a pool that is listed again keeps the figures of an older copy of kcp",
		File:  "controllers/pool/controller.go",
		Old:   "return before.ResourceVersion == after.ResourceVersion ||\n\t\twas",
		New:   "return was",
		Suite: Suite{Package: "./controllers/pool", Tests: "TestOnPool_"},
	},
	{
		Name:  "a claim waits for a record to go that has gone before it waits",
		File:  "controllers/claim/bind.go",
		Old:   "return err == nil && (p.slot.Record == nil || p.slot.Record.UID != read), err",
		New:   "return err == nil && p.slot.Record != nil && p.slot.Record.UID != read, err",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestReuse_"},
	},
	{
		Name:  "a range is taken for published whose IPPool is being deleted",
		File:  "controllers/derived/published.go",
		Old:   "if going == nil {",
		New:   "if true {",
		Suite: Suite{Package: "./controllers/derived", Tests: "TestPublish_WaitsForADeletionOfTheObject"},
	},
	{
		Name:  "a claim that has its block keeps younger ones waiting",
		File:  "controllers/claim/order.go",
		Old:   "knows := !left",
		New:   "knows := left && false",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestOrder_"},
	},
}
