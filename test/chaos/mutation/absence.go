package mutation

// ofClosed are the tests of calls on an Allocator that is closed, or is being closed.
var ofClosed = Suite{Tests: "TestClosed"}

// ofSpaces are the tests of address spaces that come, go and are closed.
var ofSpaces = Suite{Tests: "TestRetire_|TestChanges_|TestBegin_"}

// absence are the mutants that conclude too much: from an object that is not shown, or from a list that a cache has
// cut.
var absence = []Mutant{
	{
		Name:  "the ledger takes any identity of the export for its own",
		File:  "allocator/internal/store/origin.go",
		Old:   "Cmps(Absent(key))",
		New:   "nil",
		Suite: Suite{Tests: "TestOrigin_StaysUntilItIsReplaced"},
	},
	{
		Name:  "a pool shows fewer changes while the head of its space cannot be read",
		File:  "allocator/pools.go",
		Old:   "err = cmp.Or(err, p.In.Head.Damage)",
		New:   "err = cmp.Or(err, nil)",
		Suite: Suite{Package: "./controllers/pool"},
	},
	{
		Name:  "child pools that drain put the brake of a sweep on",
		File:  "controllers/sweep/sweep.go",
		Old:   "return !drains(s.Ledger.Pools, b)",
		New:   "return true",
		Suite: Suite{Package: "./controllers/sweep"},
	},
	{
		Name:  "a root pool may overlap one that cannot be read",
		File:  "allocator/register.go",
		Old:   "err != nil && !r.wanted.Frozen { // a frozen pool is restored: it existed before\n\t\treturn engine.Plan{}, fmt",
		New:   "err != nil && false {\n\t\treturn engine.Plan{}, fmt",
		Suite: Suite{Tests: "TestUnreadable_PreventsRegisteringARootPool"},
	},
	{
		Name:  "a child pool is retired although a key of its space cannot be read",
		File:  "allocator/retire.go",
		Old:   "if err := p.In.Damage.Err(); err != nil {",
		New:   "if err := p.In.Damage.Err(); err != nil && p.ID == \"\" {",
		Suite: Suite{Tests: "TestUnreadable_PreventsRetiringAChildPool"},
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
		Name:  "a sweep that is to free nothing frees as much as by default",
		File:  "cmd/ipam-controller/options.go",
		Old:   "limited.MaxFrees == 0",
		New:   "false",
		Suite: Suite{Package: "./cmd/ipam-controller", Tests: "TestSweep_"},
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
		Old:   " || s.strays(found, seen.claim))",
		New:   ")",
		Suite: Suite{Package: "./controllers/release"},
	},
	{
		Name:  "a claim has the block of an ID that it has copied",
		File:  "controllers/internal/promise/id.go",
		Old:   "complete(read, cluster, namespace, name) == read",
		New:   "cluster != \"\"",
		Suite: Suite{Package: "./controllers/internal/promise"},
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
		File:  "controllers/derived/controller.go",
		Old:   " && !c.Catalog.MayBeBound(of)",
		New:   "",
		Suite: Suite{Package: "./controllers/derived"},
	},
	{
		Name:  "the reclaim policy of a claim is not kept while its pool cannot be named",
		File:  "controllers/claim/act.go",
		Old:   "\tif policy := cmp.Or(",
		New:   "\tif _, err := p.r.poolOf(block, p.decision.from.Cluster); err != nil {\n\t\treturn err\n\t}\n\tif policy := cmp.Or(",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestReconcile_KeepsThePolicy"},
	},
	{
		Name:  "a bind in flight at the end of its Allocator is said to have failed",
		File:  "allocator/internal/engine/writer.go",
		Old:   "if w.pending.sent != nil {",
		New:   "if false {",
		Suite: ofClosed,
	},
	{
		Name:  "a closed Allocator asks the ledger",
		File:  "allocator/internal/store/store.go",
		Old:   "\tcase <-s.Closed:\n",
		New:   "\tcase <-make(chan struct{}):\n",
		Suite: ofClosed,
	},
	{
		Name:  "the changes to an address space that goes are counted twice, by the order of a map",
		File:  "allocator/internal/engine/events.go",
		Old:   "slices.Concat(begin, end, rest)",
		New:   "slices.Concat(begin, rest, end)",
		Suite: Suite{Package: "./allocator/internal/engine", Tests: "TestInTurn_EndsASpaceBeforeThePoolAbove"},
	},
	{
		Name:  "the changes to an address space that goes are counted twice, by a reader",
		File:  "allocator/pools.go",
		Old:   "append([]ledger.PoolID{id}, parts...)",
		New:   "append(parts, id)",
		Suite: ofSpaces,
	},
	{
		Name:  "the pools of a network are looked for in the address space of a claim",
		File:  "controllers/claim/chain.go",
		Old:   "plan.Policy, plan.Space = level.Class.Name, level.Limit, \"\", level.Space",
		New:   "plan.Policy = level.Class.Name, level.Limit, \"\"",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestCombinations/1_levels"},
	},
	{
		Name:  "a command waits for ever for a server that hangs",
		File:  "cmd/kubectl-ipam/session/limit.go",
		Old:   "time.AfterFunc(l.after,",
		New:   "time.AfterFunc(l.after*1000000,",
		Suite: Suite{Package: "./cmd/kubectl-ipam", Tests: "TestCommands_EndWithoutAServer"},
	},
	{
		Name:  "a watch ends as a request does",
		File:  "cmd/kubectl-ipam/session/limit.go",
		Old:   "if req.URL.Query().Has(\"watch\") {\n\t\ttimer.Stop()\n\t}\n",
		New:   "",
		Suite: Suite{Package: "./cmd/kubectl-ipam/session", Tests: "TestLimit_"},
	},
	{
		Name:  "a command waits for ever for a controller that hangs",
		File:  "cmd/ipam-controller/timeout.go",
		Old:   "context.WithTimeout(ctx, o.timeout)",
		New:   "context.WithTimeout(ctx, o.timeout*1000)",
		Suite: Suite{Package: "./cmd/ipam-controller", Tests: "TestCommands_EndWithoutAController"},
	},
}
