package mutation

// ofDerived notices mutants of derived pools and address spaces.
var ofDerived = Suite{Package: "./allocator", Args: []string{"-test.failfast", "-test.timeout=3m",
	"-test.run=Provision|Hold|Begin|Reopen|Space|InUse|Behind|AdoptedAgain|EndDispute"}}

// derived are the mutants of derived pools and address spaces.
var derived = []Mutant{
	{
		Name:  "a range is released though blocks are in it",
		File:  "allocator/edit.go",
		Old:   "if e.idle && (p.Held() > 0 || next.Kept()) {",
		New:   "if e.idle && next.Kept() {",
		Suite: ofDerived,
	},
	{
		Name:  "a bind is not told that its pool is being released",
		File:  "allocator/bind.go",
		Old:   "\tif p.Closed() && !b.adopts {\n\t\treturn at, &ledger.ReleasingError{Pool: p.ID}\n\t}\n",
		New:   "",
		Suite: ofDerived,
	},
	{
		Name:  "a bind waits for room in a pool that is being released",
		File:  "allocator/internal/space/frozen.go",
		Old:   "case p.Closed():",
		New:   "case false:",
		Suite: ofDerived,
	},
	{
		Name:  "a pool is retired that a claim holds",
		File:  "allocator/internal/space/pool.go",
		Old:   "return p.Held() > 0 || p.Kept()",
		New:   "return p.Held() > 0",
		Suite: ofDerived,
	},
	{
		Name:  "a claim takes a pool that another one holds",
		File:  "allocator/derived.go",
		Old:   "case p.Derived.Holder.Claim != \"\" && p.Derived.Holder.Claim != by.Claim:",
		New:   "case false:",
		Suite: ofDerived,
	},
	{
		Name:  "a claim releases a pool that another one holds",
		File:  "allocator/derived.go",
		Old:   "\t\t\tif p.Derived.Holder.Claim != by {\n\t\t\t\treturn fmt.Errorf(",
		New:   "\t\t\tif false {\n\t\t\t\treturn fmt.Errorf(",
		Suite: ofDerived,
	},
	{
		Name:  "a pool is retired that has address spaces",
		File:  "allocator/retire.go",
		Old:   "\tcase p.Spaces > 0:\n\t\treturn engine.Plan{}, errSpaces\n",
		New:   "",
		Suite: ofDerived,
	},
	{
		Name:  "a pool does not know how many address spaces it has",
		File:  "allocator/spaces.go",
		Old:   "\tnext.Spaces++\n",
		New:   "",
		Suite: ofDerived,
	},
	{
		Name:  "an address space comes without the exclusions of its pool",
		File:  "allocator/spaces.go",
		Old:   "made.CIDR, made.Excluded = of.Cluster, of.Name, of.CIDR, of.Excluded",
		New:   "made.CIDR = of.Cluster, of.Name, of.CIDR",
		Suite: ofDerived,
	},
	{
		Name:  "an address space does not follow its pool",
		File:  "allocator/spaces.go",
		Old:   "s.Excluded, s.Frozen = p.Excluded, p.Frozen",
		New:   "s.Frozen = p.Frozen",
		Suite: ofDerived,
	},
	{
		Name:  "a pool that is made again gives out what cools in it",
		File:  "allocator/uncarve.go",
		Old:   "if ledger.IsDerived(r.child.ID) && inside.After(now) {",
		New:   "if false {",
		Suite: ofDerived,
	},
	{
		Name:  "a pool that has blocks gets address spaces",
		File:  "allocator/spaces.go",
		Old:   "\tcase of.Held() > 0 && !of.Frozen:\n\t\treturn engine.Refuse(ledger.ErrMixed)\n",
		New:   "",
		Suite: ofDerived,
	},
	{
		Name:  "a pool that has address spaces gets blocks",
		File:  "allocator/bind.go",
		Old:   "\tif refusal == nil && p.Spaces > 0 && !b.adopts {\n\t\trefusal = ledger.ErrMixed\n\t}\n",
		New:   "",
		Suite: ofDerived,
	},
	{
		Name:  "a scope gets one address of two overlapping pools",
		File:  "allocator/spaces.go",
		Old:   "if p != of && p.CIDR.Overlaps(of.CIDR) {",
		New:   "if false {",
		Suite: ofDerived,
	},
	{
		Name:  "an address space follows an older change of its pool",
		File:  "allocator/spaces.go",
		Old:   "change: followed(p), asFor: same}",
		New:   "change: followed(p), asFor: same[:0]}",
		Suite: ofDerived,
	},
	{
		Name:  "changes to an address space are forgotten with it",
		File:  "allocator/spaces.go",
		Old:   "v.Next(v.Head().Count + changes)",
		New:   "v.Next(v.Head().Count)",
		Suite: ofDerived,
	},
	{
		Name:  "a derived pool comes back under any ID",
		File:  "allocator/carve.go",
		Old:   " || of != nil && of.ID() != c.child.ID {",
		New:   " {",
		Suite: ofDerived,
	},
}
