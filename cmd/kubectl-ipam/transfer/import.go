// Package transfer has the commands kubectl ipam import and kubectl ipam export.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/request"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// planImport is kubectl ipam import.
type planImport struct {
	*session.Session
	report  output.Printer
	dryRun  string
	wait    time.Duration
	options plan.Options
	// separator is the value of --separator.
	separator string
	// leaveOut are the values of --leave-out, as COLUMN=VALUE.
	leaveOut []string
	// filename is the value of --filename, which replaces the argument.
	filename string
	// file is the name of the plan file, as the user gave it.
	file string
	// given reports whether the command line has a flag.
	given func(flag string) bool
}

// NewImport makes kubectl ipam import.
func NewImport(s *session.Session) *cobra.Command {
	o := &planImport{Session: s, wait: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "import FILE | -",
		Short: "Create the pools, exclusions and claims of an address plan",
		Long: `Create what an address plan describes: pools, the blocks that they exclude, and claims for
exact blocks. The plan is a table (.csv) or manifests (.yaml, .yml, .json), such as
kubectl ipam export prints, in UTF-8. - reads it from stdin.

The whole plan is checked before anything is created, by itself and with the server. If a
line is wrong, or contradicts an object that exists, nothing is created, and the error
names each such line and what to write instead. Objects that exist and agree with
the plan stay as they are: importing the same plan again changes nothing.

A table begins with the names of its columns: kind, name and cidr are enough. kind is pool,
claim or exclusion. Commas, semicolons, tabs or bars separate the cells. A claim without
pool and class claims from the pool of the plan that contains it, and a row without a name
is named after its block.`,
		Example: `  # read a table of another program, and make each row a claim
  kubectl ipam import prefixes.csv --column cidr=Prefix --ignore-column Status --default kind=claim,pool=dc`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.filename != "" {
				args = append(args, o.filename)
			}
			if len(args) != 1 {
				return exit.Usagef("%d files were given; give one, or - for stdin", len(args))
			}
			return o.run(cmd.Context(), args[0])
		},
	}
	flags := cmd.Flags()
	o.given = flags.Changed
	request.AddDryRun(cmd, &o.dryRun, request.DryRunServer,
		"server: check everything, and create nothing. client: check the plan by itself, without a server")
	flags.StringVarP(&o.filename, "filename", "f", "", "The plan, instead of the argument; - is stdin")
	flags.Var(field.Duration(&o.wait, time.Millisecond), "wait", "How long to wait for the block of each pool and claim")
	flags.StringToStringVar(&o.options.Columns, "column", nil,
		"Column of a table to read as another one, such as cidr=Prefix")
	flags.StringSliceVar(&o.options.Ignore, "ignore-column", nil, "Columns of a table that are not read")
	flags.StringToStringVar(&o.options.Defaults, "default", nil,
		"Values for empty cells and for columns that a table lacks, such as kind=claim")
	flags.StringArrayVar(&o.leaveOut, "leave-out", nil,
		"Rows of a table that are not read, such as Status=Free: those with that value in that column")
	flags.StringVar(&o.separator, "separator", "",
		"What separates the cells of a table, such as ; or tab, if its first line does not show it")
	o.report.AddFlags(cmd)
	return cmd
}

func (o *planImport) validate() error {
	if o.separator != "" {
		var err error
		if o.options.Separator, err = plan.ParseSeparator(o.separator); err != nil {
			return exit.Usagef("--separator: %w", err)
		}
	}
	o.options.LeaveOut = map[string][]string{}
	for _, one := range o.leaveOut {
		column, value, ok := strings.Cut(one, "=")
		if !ok || column == "" {
			return exit.Usagef("--leave-out %s: write a column of the table and a value, such as Status=Free", one)
		}
		o.options.LeaveOut[column] = append(o.options.LeaveOut[column], value)
	}
	return o.validateColumns()
}

// validateColumns refuses unknown columns, and maps the names of --column to the known ones.
func (o *planImport) validateColumns() error {
	theirs := map[string]string{}
	for _, column := range slices.Sorted(maps.Keys(o.options.Columns)) {
		name := o.options.Columns[column]
		if !slices.Contains(plan.Columns(), column) {
			return exit.Usagef("--column %s=%s: there is no column %q; write one of %s before the =",
				column, name, column, strings.Join(plan.Columns(), ", "))
		}
		for also, meaning := range theirs {
			if strings.EqualFold(also, name) {
				return exit.Usagef("--column reads %q as %s and as %s; give it one meaning", name, meaning, column)
			}
		}
		theirs[name] = column
	}
	o.options.Columns = theirs
	for column := range o.options.Defaults {
		if !slices.Contains(plan.Columns(), column) {
			return exit.Usagef("--default: there is no column %q; write one of %s", column, strings.Join(plan.Columns(), ", "))
		}
	}
	return nil
}

func (o *planImport) run(ctx context.Context, file string) error {
	if err := o.validate(); err != nil {
		return err
	}
	o.file = file
	p, wrong, err := o.read()
	if err != nil {
		return err
	}
	if p.LeftOut > 0 {
		o.Say("%s: %s left out by --leave-out", o.file, plural.Of(p.LeftOut, "row is", "rows are"))
	}
	steps, found := stepsOf(p), &faults{}
	found.add(exit.Invalid, wrong...)
	var c client.WithWatch
	if o.dryRun != request.DryRunClient && len(steps) > 0 {
		c, err = o.check(ctx, steps, found)
	}
	if len(found.problems) > 0 {
		return o.refuse(found, err)
	}
	if err != nil {
		return err
	}
	if c != nil && o.dryRun != request.DryRunServer {
		err = o.create(ctx, c, steps)
	}
	return o.show(steps, err)
}

// check asks the server about each line that has no fault yet.
func (o *planImport) check(ctx context.Context, steps []*step, found *faults) (client.WithWatch, error) {
	c, err := o.Here()
	if err != nil {
		return nil, err
	}
	if err := compare(ctx, c, steps, found); err != nil {
		return nil, err
	}
	return c, o.preview(ctx, c, steps, found)
}

// faults are the faults of a plan. The exit code is that of the first: first come those of the file itself, then
// contradictions to existing objects, then refusals by the server.
type faults struct {
	code     int
	problems []plan.Problem
}

func (f *faults) add(code int, problems ...plan.Problem) {
	if len(f.problems) == 0 {
		f.code = code
	}
	f.problems = plan.Join(f.problems, problems)
}

// lines returns the lines that have a fault.
func (f *faults) lines() map[int]bool {
	lines := map[int]bool{}
	for _, one := range f.problems {
		lines[one.Line] = true
	}
	return lines
}

// mostNamed is how many lines an error names at most.
const mostNamed = 50

// refuse returns the error of a plan with faults. Nothing of the plan was created. unasked says why the server was not
// asked about all lines; nil if it was.
func (o *planImport) refuse(found *faults, unasked error) error {
	code, wrong := found.code, found.problems
	if o.report.Format == output.JSON || o.report.Format == output.YAML {
		if err := o.report.PrintReport(o.Out, map[string]any{"file": o.file, "problems": wrong}, nil); err != nil {
			return err
		}
	}
	errs := make([]error, 0, len(wrong))
	for _, one := range wrong[:min(len(wrong), mostNamed)] {
		errs = append(errs, exit.Fail(code, "", "%s:%d: %s", o.file, one.Line, one.Message))
	}
	if more := len(wrong) - mostNamed; more > 0 {
		errs = append(errs, exit.Fail(code, "", "%s: %s wrong; -o json names all",
			o.file, plural.Of(more, "line more is", "lines more are")))
	}
	if unasked != nil {
		errs = append(errs, exit.Fail(code, "", "the server was not asked about all lines: %w", unasked))
	}
	errs = append(errs, exit.Fail(code, "", "nothing is imported"))
	return errors.Join(errs...)
}

// show prints the state of each line, and how many lines have each state.
func (o *planImport) show(steps []*step, failed error) error {
	if err := o.print(steps); err != nil {
		return err
	}
	count := map[string]int{}
	for _, s := range steps {
		count[s.State]++
	}
	said := make([]string, 0, len(count))
	for _, state := range []string{
		stateValid, stateNew, stateCreated, stateUnchanged, stateFailed, stateUnknown, stateUntried,
	} {
		if n := count[state]; n > 0 {
			said = append(said, fmt.Sprintf("%d %s", n, state))
		}
	}
	if count[stateUnchanged] == len(steps) {
		said = append(said, "nothing to do")
	}
	o.Say("%s: %s", o.file, strings.Join(said, ", "))
	return failed
}

func (o *planImport) print(steps []*step) error {
	if o.report.Format == output.Name {
		return printNames(o.Out, steps)
	}
	t := output.NewTable("LINE", "KIND", "NAME", "BLOCK", "STATE", "message")
	for _, s := range steps {
		t.Rows = append(t.Rows, output.Row(nil, fmt.Sprint(s.Line), s.Kind, facts.Name(s.object),
			s.Block, s.State, s.Message))
	}
	return o.report.PrintReport(o.Out, map[string]any{"file": o.file, "lines": steps}, t)
}
