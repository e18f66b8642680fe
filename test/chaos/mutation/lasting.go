package mutation

// lasting breaks what outlives a claim or a process: the office of the ledger's writer, the history, cooldowns and retained blocks.
var lasting = []Mutant{
	{
		Name:  "a transaction does not compare who has the office",
		File:  "allocator/internal/store/office.go",
		Old:   "slices.Concat(t.If, Cmps(o.head.same()))...",
		New:   "slices.Concat(t.If)...",
		Suite: Suite{Tests: "TestOffice_Nothing"},
	},
	{
		Name:  "a process deposes itself when the answer to its taking the office is lost",
		File:  "allocator/internal/store/office.go",
		Old:   "case c.mine.was(read):",
		New:   "case false:",
		Suite: Suite{Tests: "TestOffice_TheAnswerToTakingItIsLost"},
	},
	{
		Name:  "a process that has lost the office takes it back by a late attempt",
		File:  "allocator/internal/store/office.go",
		Old:   "case former.N != c.after:",
		New:   "case false:",
		Suite: Suite{Tests: "TestOffice_TheAnswerToTakingItIsLost"},
	},
	{
		Name:  "the end of a cooldown compares no more than the head",
		File:  "allocator/internal/engine/cooldown.go",
		Old:   "v.Keys.RemoveBlock(prefix).At(c.At, ErrMistaken)",
		New:   "v.Keys.RemoveBlock(prefix)",
		Suite: Suite{Tests: "TestChangedByHand_"},
	},
	{
		Name:  "the block of another name is handed over",
		File:  "allocator/handover.go",
		Old:   "|| former != s.Holder ||",
		New:   "||",
		Suite: Suite{Tests: "TestHandOver_Refused"},
	},
	{
		Name:  "a cooldown ends before its time",
		File:  "allocator/internal/engine/cooldown.go",
		Old:   "d.Until > now.UnixMilli() {",
		New:   "d.Until > now.UnixMilli()+1000 {",
		Suite: Suite{Tests: "TestCooldown_EndsNoneEarly"},
	},
	{
		Name:  "a release leaves no record in the history",
		File:  "allocator/release.go",
		Old:   "b, changes := f.block, store.EndTenure(f.farewell.record)",
		New:   "b, changes := f.block, store.EndTenure(nil)",
		Suite: Suite{Tests: "TestFollow"},
	},
	{
		Name:  "of neighbours that are released together only the last is recorded",
		File:  "allocator/internal/engine/commit.go",
		Old:   "append(ended[c.space.ID], t)",
		New:   "[]*store.Farewell{t}",
		Suite: Suite{Tests: "TestHistory_OfAStorm"},
	},
	{
		Name:  "the wait for a pool does not begin again while its blocks are freed",
		File:  "cmd/kubectl-ipam/cascade/delete.go",
		Old:   "end.Reset(d.Patience)",
		New:   "_ = end",
		Suite: Suite{Package: "./cmd/kubectl-ipam/cascade", Tests: "TestDeletion_IsPatient"},
	},
	{
		Name:  "a claim that others make renews the wait for a pool",
		File:  "cmd/kubectl-ipam/cascade/delete.go",
		Old:   "(least < 0 || left < least)",
		New:   "(least < 0 || left != least)",
		Suite: Suite{Package: "./cmd/kubectl-ipam/cascade", Tests: "TestDeletion_IsPatient"},
	},
	{
		Name:  "an import creates a block before the range that it lies in",
		File:  "cmd/kubectl-ipam/transfer/import_create.go",
		Old:   "\t\treturn 129\n",
		New:   "\t\treturn 0\n",
		Suite: Suite{Package: "./cmd/kubectl-ipam/transfer", Tests: "TestImport_CreatesRangesFirst"},
	},
	{
		Name:  "an export has a network inside one that nobody holds",
		File:  "cmd/kubectl-ipam/plan/ranges.go",
		Old:   "case !made || !r.holders[name]:",
		New:   "case !made:",
		Suite: Suite{Package: "./cmd/kubectl-ipam/plan", Tests: "TestOf_HasTheNetworks"},
	},
}
