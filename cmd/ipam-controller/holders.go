package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/internal/lookup"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// writeHolders writes holders for people.
func writeHolders(w io.Writer, holders []history.Holder) error {
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "PREFIX\tFROM\tUNTIL\tWORKSPACE\tHOLDER\tUID\tPOOL\tSCOPE\tSTATE")
	for _, h := range holders {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", h.Prefix, lookup.Moment(h.From), dash(lookup.Moment(h.Until)),
			cmp.Or(h.Workspace, h.Cluster), h.FullName(), h.UID, dash(h.PoolName), dash(h.Scope), h.Ending())
	}
	return table.Flush()
}

// topWorkspaces is how many workspaces reservedBy names.
const topWorkspaces = 10

// reservedBy counts the reserved blocks of each workspace, the most first.
func reservedBy(holders []history.Holder) string {
	counts := map[string]int{}
	for _, h := range holders {
		counts[cmp.Or(h.Workspace, h.Cluster)]++
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(len(names), topWorkspaces)] {
		parts = append(parts, fmt.Sprintf("%d of %s", counts[name], name))
	}
	if rest := len(names) - len(parts); rest > 0 {
		parts = append(parts, fmt.Sprintf("and those of %s", plural.Of(rest, "other workspace", "other workspaces")))
	}
	return fmt.Sprintf("reserved: %s: %s", plural.Of(len(holders), "block", "blocks"), strings.Join(parts, ", "))
}
