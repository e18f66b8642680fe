// Package check has the commands kubectl ipam check and kubectl ipam version.
package check

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// New makes kubectl ipam check.
func New(s *session.Session) *cobra.Command {
	out, repeated, patience := &output.Printer{}, false, 5*time.Minute
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that you can claim addresses here, and say what is missing",
		Long: `Check that the IPAM API is served in the current workspace, that its APIBinding or its
APIExport is complete, that your roles allow you to claim, that the controller answers, and
that this program knows the API that is served. It creates one claim by a dry run on the
server, and stores nothing. In a management cluster of Cluster API, it names IPAddressClaims
that have no address.

A check of something that you cannot read, or that this server does not have, is skipped.
The exit code is that of the first check that failed. With --wait, the checks are repeated
until none fails, and what fails meanwhile is written to stderr.`,
		Example: `  # in the workspace of a tenant, as one of its users
  kubectl ipam check --context team-a --namespace web`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !repeated {
				patience = 0
			}
			list, err := repeat(cmd.Context(), s, patience, func(ctx context.Context) (checklist, error) {
				found, err := inspect(ctx, s)
				if err != nil {
					return checklist{}, err
				}
				return found.judge(), nil
			})
			if err != nil {
				return err
			}
			return showChecks(s, out, list)
		},
	}
	out.AddFlags(cmd)
	cmd.Flags().BoolVar(&repeated, "wait", false, "Repeat the checks until none fails")
	cmd.Flags().Var(field.Duration(&patience, time.Millisecond), "timeout",
		"How long --wait repeats them; then the last ones are shown")
	return cmd
}

// result is the result of a check.
type result string

const (
	checkOK      result = "ok"
	checkFailed  result = "failed"
	checkWarning result = "warning"
	checkSkipped result = "skipped"
)

// finished is a check with its result, as -o prints it.
type finished struct {
	Check  string `json:"check"`
	Result result `json:"result"`
	Found  string `json:"found"`
	// Remedy says what to do; empty: nothing.
	Remedy string `json:"remedy,omitempty"`
	// code is the exit code of a check that failed.
	code int
}

// checklist has all checks, as -o prints them.
type checklist struct {
	Workspace string     `json:"workspace,omitempty"`
	Namespace string     `json:"namespace"`
	Checks    []finished `json:"checks"`
}

// failed returns the checks that failed.
func (l checklist) failed() []finished {
	return slices.DeleteFunc(slices.Clone(l.Checks), func(c finished) bool { return c.Result != checkFailed })
}

func showChecks(s *session.Session, out *output.Printer, list checklist) error {
	t := output.NewTable("CHECK", "RESULT", "FOUND", "REMEDY")
	for _, c := range list.Checks {
		t.Rows = append(t.Rows, output.Row(nil, c.Check, string(c.Result), c.Found, s.Aimed(c.Remedy)))
	}
	if err := out.PrintReport(s.Out, list, t); err != nil {
		return err
	}
	failed := list.failed()
	if len(failed) == 0 {
		return nil
	}
	return exit.Fail(failed[0].code, failed[0].Remedy, "%d of %d checks failed; the first is %s: %s",
		len(failed), len(list.Checks), failed[0].Check, failed[0].Found)
}

// between is the time between two looks.
const between = time.Second

// repeat looks until no check fails or the time is over, and returns the checks of the last look. With a patience of 0
// it looks once. Whenever another check is the first to fail, repeat names it.
func repeat(
	ctx context.Context, s *session.Session, patience time.Duration, look func(context.Context) (checklist, error),
) (checklist, error) {
	if patience == 0 {
		return look(ctx)
	}
	var last checklist
	said := ""
	err := wait.PollUntilContextTimeout(ctx, between, patience, true, func(ctx context.Context) (bool, error) {
		list, err := look(ctx)
		if err != nil {
			return false, err
		}
		last = list
		failed := list.failed()
		if len(failed) == 0 {
			return true, nil
		}
		if words := failed[0].Check + ": " + failed[0].Found; words != said {
			said = words
			s.Say("waiting for %s", words)
		}
		return false, nil
	})
	if ctx.Err() == nil && wait.Interrupted(err) && len(last.Checks) > 0 {
		return last, nil
	}
	return last, err
}
