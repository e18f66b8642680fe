package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// outputs are the values of --output.
var outputs = []string{"table", "json", "yaml"}

// print writes a report in the form of --output.
func (v *verification) print(w io.Writer, report recover.Report) error {
	switch v.output {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	case "yaml":
		text, err := yaml.Marshal(report)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	if err := writeTable(w, report); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s in %s and %s, at revision %d, %s\n",
		plural.Of(len(report.Findings), "finding", "findings"),
		plural.Of(report.Pools, "pool", "pools"), plural.Of(report.Blocks, "block", "blocks"),
		report.Revision, report.Time.Format(time.RFC3339))
	return err
}

// writeTable writes the findings of a report for people.
func writeTable(w io.Writer, report recover.Report) error {
	if len(report.Findings) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "KIND\tWORKSPACE\tOBJECT\tPREFIX\tREPAIR\tMESSAGE")
	for _, f := range report.Findings {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n",
			f.Kind, dash(string(f.Cluster)), dash(object(f)), dash(f.Prefix), dash(string(f.Repair)), f.Message)
	}
	return table.Flush()
}

// object names the object of a finding: by namespace/name for a claim, else by name.
func object(f recover.Finding) string {
	if f.Namespace != "" {
		return f.Namespace + "/" + f.Name
	}
	return f.Name
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
