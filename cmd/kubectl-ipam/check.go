package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
)

func newCheck(s *session) *cobra.Command {
	out := &report{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that you can claim addresses here, and say what is missing",
		Long: `Check that the IPAM API is served in the current workspace, that its APIBinding or its
APIExport is complete, that your roles allow you to claim, that the controller answers, and
that this program knows the API that is served. It creates one claim by a dry run on the
server, and stores nothing. In a management cluster of Cluster API, it names IPAddressClaims
that have no address.

A check of something that you cannot read, or that this server does not have, is skipped.
The exit code is that of the first check that failed.`,
		Example: `  kubectl ipam check

  # in the workspace of a tenant, as one of its users
  kubectl ipam check --context team-a --namespace web`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.check(cmd.Context(), out) },
	}
	out.addFlags(cmd)
	return cmd
}

// result is how a check ended.
type result string

const (
	checkOK      result = "ok"
	checkFailed  result = "failed"
	checkWarning result = "warning"
	checkSkipped result = "skipped"
)

// finished is a check that was made, and the fields of -o.
type finished struct {
	Check  string `json:"check"`
	Result result `json:"result"`
	Found  string `json:"found"`
	// Remedy is what to do; empty if nothing is.
	Remedy string `json:"remedy,omitempty"`
	// code is the exit code when it failed.
	code int
}

// checklist are all checks, and the fields of -o.
type checklist struct {
	Workspace string     `json:"workspace,omitempty"`
	Namespace string     `json:"namespace"`
	Checks    []finished `json:"checks"`
}

func (s *session) check(ctx context.Context, out *report) error {
	if err := out.validate(); err != nil {
		return err
	}
	found, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	return s.showChecks(out, found.judge())
}

func (s *session) showChecks(out *report, list checklist) error {
	if out.given() {
		if err := out.print(s.Out, list); err != nil {
			return err
		}
	} else {
		t := table("CHECK", "RESULT", "FOUND", "REMEDY")
		for _, c := range list.Checks {
			t.Rows = append(t.Rows, row(nil, c.Check, string(c.Result), c.Found, c.Remedy))
		}
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(t, s.Out); err != nil {
			return err
		}
	}
	failed := slices.DeleteFunc(slices.Clone(list.Checks), func(c finished) bool { return c.Result != checkFailed })
	if len(failed) == 0 {
		return nil
	}
	return fail(failed[0].code, failed[0].Remedy, "%d of %d checks failed; the first is %s: %s",
		len(failed), len(list.Checks), failed[0].Check, failed[0].Found)
}
