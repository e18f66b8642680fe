package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/kcp-ipam/ipam/controllers/history"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// writeHolders writes holders for people.
func writeHolders(w io.Writer, holders []history.Holder) error {
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "PREFIX\tFROM\tUNTIL\tWORKSPACE\tHOLDER\tUID\tPOOL\tSCOPE\tSTATE")
	for _, h := range holders {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			h.Prefix, lookup.Moment(h.From), dash(lookup.Moment(h.Until)),
			cmp.Or(h.Workspace, h.Cluster), h.FullName(), h.UID, dash(h.PoolName), dash(h.Scope), h.Ending())
	}
	return table.Flush()
}
