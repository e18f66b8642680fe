package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/controllers/recover"
)

// These are the exit codes of verify beside 0.
const (
	exitFindings = 1
	exitUsage    = 2
	exitFault    = 3
)

// verification is one run of the command verify.
type verification struct {
	*options
	output string
	repair bool
	out    io.Writer // the report
	says   io.Writer // everything else
}

func newVerifyCommand() *cobra.Command {
	v := &verification{options: defaults()}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the ledger with IPAllocations, claims and pools",
		Long: `verify compares the ledger with the IPAllocations, claims and pools of all workspaces,
and prints what differs. It asks the controller that runs on this machine. If none runs,
it reads the ledger and the objects.

The exit code is 0 if nothing differs, 1 if something does, 2 for a wrong command line,
and 3 if something could not be read.`,
		Example: `  # ask the controller with this data directory
  ipam-controller verify --etcd-data-dir ./ledger

  # no controller runs here: read an external etcd and kcp
  ipam-controller verify --kubeconfig controller.kubeconfig --etcd-servers https://etcd-0:2379 \
    --etcd-cafile ca.crt --etcd-certfile tls.crt --etcd-keyfile tls.key -o json`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			return usage(cobra.NoArgs(cmd, args))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			v.out, v.says = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := v.validate(); err != nil {
				return usage(err)
			}
			return v.within(cmd.Context(), v.run)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	v.addPlaceFlags(cmd.Flags())
	v.addTimeoutFlag(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("standalone", "workspace")
	cmd.Flags().StringVarP(&v.output, "output", "o", "table", "output format: "+strings.Join(outputs, ", "))
	cmd.Flags().BoolVar(&v.repair, "repair", v.repair,
		"print which findings can be repaired safely, let the running controller repair them, and verify again")
	return cmd
}

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{error: err, code: exitUsage}
}

func (v *verification) validate() error {
	err := v.options.validate()
	if !slices.Contains(outputs, v.output) {
		err = errors.Join(err, fmt.Errorf("--output is %q; give it one of %s", v.output, strings.Join(outputs, ", ")))
	}
	return err
}

// run verifies, repairs if --repair is set, and prints the findings.
func (v *verification) run(ctx context.Context) error {
	report, err := v.find(ctx)
	if err == nil && v.repair && report.Repairs() > 0 {
		report, err = v.mend(ctx, report)
	}
	if err == nil {
		err = v.print(v.out, report)
	}
	if err != nil {
		return &exitError{error: err, code: exitFault}
	}
	if n := len(report.Findings); n > 0 {
		return &exitError{error: fmt.Errorf("findings: %d", n), code: exitFindings}
	}
	return nil
}

// find asks the running controller for a report. If none runs, it makes the report itself.
func (v *verification) find(ctx context.Context) (recover.Report, error) {
	if v.socket() != "" {
		report, err := recover.Ask(ctx, v.socket())
		if !errors.Is(err, recover.ErrNobody) {
			return report, err
		}
	}
	return v.read(ctx)
}

// mend shows the findings that can be repaired, asks the controller to repair these, and returns a new report.
func (v *verification) mend(ctx context.Context, report recover.Report) (recover.Report, error) {
	fmt.Fprintln(v.says, "to be repaired:")
	if err := writeTable(v.says, repairable(report)); err != nil {
		return report, err
	}
	if v.socket() == "" {
		return report, errors.New("--repair needs a running controller; name its --verify-socket")
	}
	if err := recover.AskRepair(ctx, v.socket(), report); err != nil {
		return report, fmt.Errorf("--repair needs a running controller: %w", err)
	}
	fmt.Fprintln(v.says, "repairs are under way; verifying again")
	return v.find(ctx)
}

// repairable returns the part of a report that can be repaired.
func repairable(report recover.Report) recover.Report {
	report.Findings = slices.DeleteFunc(slices.Clone(report.Findings), func(f recover.Finding) bool {
		return f.Repair == ""
	})
	return report
}

// read makes a report without a controller.
func (v *verification) read(ctx context.Context) (report recover.Report, err error) {
	ctx = log.IntoContext(ctx, newLogger(v.verbosity))
	ground, err := findGround(ctx, v.options)
	if err != nil {
		return report, err
	}
	store, err := v.openPresent(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	verifier, err := controllers.NewVerifier(ground, v.reader(store), v.verify)
	if err != nil {
		return report, err
	}
	return verifier.Verify(ctx)
}

// verifying returns the options of a verifier of the ledger in a store.
func (o *options) verifying(store *store) recover.VerifierOptions {
	opts := o.verify
	opts.Ledger = o.reader(store)
	return opts
}

// reader returns a reader of the ledger in a store.
func (o *options) reader(store *store) allocator.Reader {
	return allocator.Reader{Client: store.client, Prefix: o.etcdPrefix}
}
