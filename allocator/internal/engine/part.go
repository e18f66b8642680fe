package engine

import (
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// With a history, each release writes one more key. Most of the cost of a release is etcd's work
// for each key, however long its value is. So the releases of neighbouring blocks in a group become
// one part of the transaction, with one key for all their tenures. A part is carried out as a
// whole or not at all. If it fails, its calls are tried one by one.

// partOps is how many operations one share of a part has at most, beside the key of the history.
const partOps = 3

// part is the shares that are carried out as a whole or not at all.
type part []int

// divide makes the parts of a group, none with more operations than etcd allows. A call that is alone
// has no part.
func (g *group) divide(maxOps int) {
	if g.alone() {
		return
	}
	most := (maxOps - g.ops() - 1) / partOps
	open := map[netip.Prefix]int{} // the part that the next release of a bucket joins
	g.parts = make([]part, 0, len(g.shares))
	singles := make([]int, len(g.shares))
	for i, sh := range g.shares {
		if sh.Farewell == nil || g.calls[i].single {
			singles[i] = i
			g.parts = append(g.parts, singles[i:i+1:i+1])
			continue
		}
		at, ok := open[sh.Farewell.Bucket]
		if ok && len(g.parts[at]) < most {
			g.parts[at] = append(g.parts[at], i)
			continue
		}
		open[sh.Farewell.Bucket] = len(g.parts)
		g.parts = append(g.parts, part{i})
	}
}

// flatten has the transaction itself carry out all parts, if it has room for their operations and none
// of the calls has failed together with others. It then succeeds or fails as a whole.
func (g *group) flatten(maxOps int) {
	if g.alone() || slices.ContainsFunc(g.calls, func(c *call) bool { return c.single }) {
		return
	}
	ifs, then := g.flatOps()
	g.flat = max(ifs, then) <= maxOps
}

// flatOps is how many comparisons and operations the flat transaction of a group has at most.
func (g *group) flatOps() (ifs, then int) {
	ifs, then = len(g.at.Same("")), g.ops()-len(g.calls)
	for _, sh := range g.shares {
		ifs, then = ifs+len(sh.Ifs), then+len(sh.Then)
		if sh.Farewell != nil {
			then++
		}
	}
	return ifs, then
}

// part is what the i-th part asks of its transaction.
func (g *group) part(i int, keys store.SpaceKeys) (ifs []clientv3.Cmp, then []clientv3.Op, look []string) {
	if p := g.parts[i]; len(p) == 1 {
		sh := g.shares[p[0]]
		return sh.Ifs, g.withFarewell(sh, i, keys), sh.Look
	}
	var farewells []*store.Farewell
	for _, n := range g.parts[i] {
		sh := g.shares[n]
		ifs, then, farewells = append(ifs, sh.Ifs...), append(then, sh.Then...), append(farewells, sh.Farewell)
	}
	return ifs, append(then, keys.PutFarewells(g.chapter(i), farewells...)), nil
}

// withFarewell is the operations of a share that is the only one of the i-th part.
func (g *group) withFarewell(sh Share, i int, keys store.SpaceKeys) []clientv3.Op {
	if sh.Farewell == nil {
		return sh.Then
	}
	return append(slices.Clip(sh.Then), keys.PutFarewells(g.chapter(i), sh.Farewell))
}

func (g *group) chapter(part int) store.Chapter {
	return store.Chapter{Head: g.at.Revision, Part: part}
}

// outcome is that of a share in a committed transaction.
type outcome struct {
	succeeded bool
	got       store.Results
	why       Loss // if it did not succeed
}

// outcomes reads those of all shares, in their order.
func (g *group) outcomes(resp *clientv3.TxnResponse) []outcome {
	if g.alone() {
		return []outcome{{succeeded: true, got: resp.Responses}}
	}
	all := make([]outcome, len(g.shares))
	if g.flat {
		g.flatOutcomes(resp.Responses, all)
		return all
	}
	for i, p := range g.parts {
		nested := resp.Responses[i].GetResponseTxn()
		if len(p) == 1 {
			got := store.Results(nested.Responses)
			all[p[0]] = outcome{nested.Succeeded, got, Loss{Refuted, got}}
			continue
		}
		for _, n := range p {
			g.calls[n].single = !nested.Succeeded
			all[n] = outcome{succeeded: nested.Succeeded, why: Loss{Kind: Overtaken}}
		}
	}
	return all
}

// flatOutcomes reads those of a flat group, all of which has succeeded.
func (g *group) flatOutcomes(got store.Results, all []outcome) {
	for _, p := range g.parts {
		for _, n := range p {
			ops := len(g.shares[n].Then)
			all[n] = outcome{succeeded: true, got: got[:ops]}
			got = got[ops:]
		}
		if g.shares[p[0]].Farewell != nil {
			got = got[1:] // the key of the history
		}
	}
}
