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

// exitCode returns the exit code of a command that ends with this error: that of an exitError, else 1.
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
		Long: `ipam-controller allocates addresses to the IPClaims of the platform workspace and of
every kcp workspace that binds the APIExport ipam.miloapis.com. With --standalone, it
allocates to the IPClaims of one cluster without kcp.

It keeps all allocations in etcd. For one replica, etcd is embedded, with its data in
--etcd-data-dir. For any number of replicas, give an external cluster by --etcd-servers.`,
		Example: `  # run one replica with an embedded etcd, and make the platform workspace ready first
  ipam-controller --kubeconfig admin.kubeconfig --workspace root:ipam --bootstrap --etcd-data-dir ./ledger

  # run one of several replicas
  ipam-controller --kubeconfig controller.kubeconfig --etcd-servers https://etcd-0:2379,https://etcd-1:2379 \
    --etcd-cafile ca.crt --etcd-certfile tls.crt --etcd-keyfile tls.key --leader-elect`,
		Version:       built(),
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
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.AddCommand(newVerifyCommand(), newHistoryCommand(), newBackupCommand(), newRestoreCommand(),
		newClusterAPICommand(), newVersionCommand())
	return cmd
}
