package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// writeHolders writes holders for people.
func writeHolders(w io.Writer, holders []history.Holder) error {
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "PREFIX\tFROM\tUNTIL\tWORKSPACE\tHOLDER\tUID\tPOOL\tSCOPE\tSTATE")
	for _, h := range holders {
		name := h.Name
		if h.Namespace != "" {
			name = h.Namespace + "/" + h.Name
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", h.Prefix, moment(h.From), dash(moment(h.Until)),
			cmp.Or(h.Workspace, string(h.Cluster)), name, h.UID, dash(h.PoolName), dash(h.Scope), state(h))
	}
	return table.Flush()
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// state says in one column what a holder's block is, or why its time ended.
func state(h history.Holder) string {
	words := []string{cmp.Or(string(h.Cause), string(h.State))}
	if !h.Ends.IsZero() {
		words = append(words, "until "+moment(h.Ends))
	}
	if !h.CoolsUntil.IsZero() {
		words = append(words, "cooled until "+moment(h.CoolsUntil))
	}
	if h.Disputed && h.State != "disputed" {
		words = append(words, "disputed")
	}
	if h.Adopted {
		words = append(words, "adopted")
	}
	return strings.Join(words, ", ")
}

// topWorkspaces is how many workspaces reservedBy names.
const topWorkspaces = 10

// reservedBy counts the reserved blocks of each workspace, the most first.
func reservedBy(holders []history.Holder) string {
	counts := map[string]int{}
	for _, h := range holders {
		counts[cmp.Or(h.Workspace, string(h.Cluster))]++
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
