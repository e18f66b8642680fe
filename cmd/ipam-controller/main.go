// Command ipam-controller serves the IPAM API: it allocates address space to
// the claims of every workspace that binds the APIExport.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ipam-controller:", err)
		os.Exit(exitCode(err)) //nolint:gocritic // the signal handler dies with the process
	}
}

// exitCode is that of a command that ends with an error: 1, unless it says another.
func exitCode(err error) int {
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	return 1
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

func newCommand() *cobra.Command {
	opts := defaults()
	cmd := &cobra.Command{
		Use:   "ipam-controller",
		Short: "Serve IP address management to the workspaces of a kcp",
		Long: `ipam-controller allocates address space to the IPClaims of every kcp workspace
that binds the APIExport ipam.miloapis.com, and of the platform workspace itself; or,
with --standalone, to those of one cluster without kcp.

What it has given out is kept in etcd: embedded, in --etcd-data-dir, for one
replica; or an external cluster, --etcd-servers, for any number of them.`,
		Example: `  # one replica with its own etcd, on a platform workspace made ready first
  ipam-controller --kubeconfig admin.kubeconfig --workspace root:ipam --bootstrap --etcd-data-dir ./ledger

  # one of several replicas
  ipam-controller --kubeconfig controller.kubeconfig --etcd-servers https://etcd-0:2379,https://etcd-1:2379 \
    --etcd-cafile ca.crt --etcd-certfile tls.crt --etcd-keyfile tls.key --leader-elect`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), opts)
		},
	}
	opts.addFlags(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("standalone", "workspace")
	cmd.AddCommand(newVerifyCommand(), newHistoryCommand(), newClusterAPICommand())
	return cmd
}
