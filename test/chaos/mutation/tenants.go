package mutation

// tenants are the mutants by which one workspace stops others, or keeps the controller busy for them.
var tenants = []Mutant{
	{
		Name:  "a claim that many pools could serve asks the writer about each that has no address space for it",
		File:  "controllers/claim/decide.go",
		Old:   "d.r.Ledger.Pools.Get(r.Pool); !known {\n\t\t\treturn 1",
		New:   "d.r.Ledger.Pools.Get(r.Pool); !known && r.Begins == nil {\n\t\t\treturn 1",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestSpace_ChoosesAmong"},
	},
	{
		Name:  "a path that another shows leaves all CREATEs of its workspace without an answer",
		File:  "controllers/claim/answer.go",
		Old:   "if from.Path == \"\" && !r.Directory.Contests(name) {",
		New:   "if from.Path == \"\" {",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestAnswer_ServesAWorkspace"},
	},
	{
		Name:  "a workspace loses its path to one that comes to show it",
		File:  "controllers/internal/directory/directory.go",
		Old:   "case len(shown) == 0 || open:",
		New:   "default:",
		Suite: Suite{Package: "./controllers/internal/directory", Tests: "TestDirectory_Gives"},
	},
	{
		Name:  "a path that two show names the pool of either",
		File:  "controllers/recover/survey.go",
		Old:   "len(meant) == 1",
		New:   "len(meant) > 0",
		Suite: Suite{Package: "./controllers/recover", Tests: "TestPass_FreezesPoolsOnlyWhereAPathIsAmbiguous|TestPass_FreezesBothPoolsThatMayBeAParent"},
	},
	{
		Name:  "a workspace that is renamed again and again has all that is published read each time",
		File:  "controllers/recover/losses.go",
		Old:   "if _, again := l.hurried[named.Cluster]; again {",
		New:   "if _, again := l.hurried[named.Cluster]; again && false {",
		Suite: Suite{Package: "./controllers/recover", Tests: "TestNamed_EndsTheBackoffOfPoolsThatWaitForThePath"},
	},
	{
		Name:  "the name of any workspace ends the wait of all lost pools",
		File:  "controllers/recover/losses.go",
		Old:   "(of.cluster == named.Cluster || of.cluster == \"\" && of.path == named.Path)",
		New:   "of != nil",
		Suite: Suite{Package: "./controllers/recover", Tests: "TestNamed_EndsTheBackoffOfPoolsThatWaitForThePath"},
	},
	{
		Name:  "a network of one workspace wakes the claims of all others",
		File:  "controllers/claim/topics.go",
		Old:   "topic{levelTopic, cluster, made.Name}",
		New:   "topic{kind: classTopic, name: made.Name}",
		Suite: Suite{Package: "./controllers/claim", Tests: "TestChain_WaitsUntilItsPoolsCanBeMade"},
	},
	{
		Name:  "a shared network wakes the root pools of all workspaces",
		File:  "controllers/pool/overlap.go",
		Old:   "if in = \"\"; pool.Spec.ClassRef != nil {",
		New:   "if in = \"\"; false {",
		Suite: Suite{Package: "./controllers/pool", Tests: "TestWakeRoots_"},
	},
}
