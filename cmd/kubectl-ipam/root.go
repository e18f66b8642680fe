package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/address"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/check"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/claim"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/class"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/network"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/pool"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/tenant"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/transfer"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/ui"
	"github.com/kcp-ipam/ipam/internal/build"
)

// newRoot makes kubectl ipam with all of its commands.
func newRoot(s *session.Session) *cobra.Command {
	root := session.Group(&cobra.Command{
		Use:         "kubectl-ipam",
		Short:       "Claim and manage IP address space",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl ipam"},
		Long: `kubectl ipam claims blocks of IP addresses in the current workspace, manages the pools that
they come from, and shows the holder of each address.

It uses the Kubernetes API only, with your kubeconfig, and takes every connection flag of
kubectl. Data goes to stdout, and messages go to stderr. The exit code is 0 ok, 1 error,
2 usage, 3 forbidden, 4 not found, 5 conflict, 6 invalid, 7 exhausted, 8 unavailable,
9 aborted.`,
		Example: `  # claim a /28 by the class "internal", wait for it and print its CIDR
  kubectl ipam claim create app --class internal --length 28

  # show why a claim is not bound, and what would help
  kubectl ipam why app

  # show how full the pools are
  kubectl ipam pool tree`,
		Version:       build.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	})
	// This flag has no short form, as -v is the verbosity of kubectl.
	root.Flags().Bool("version", false, "Print the version of this program")
	root.SetVersionTemplate("kubectl ipam {{.Version}}\n")
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.ErrOut)
	s.Flags.AddFlags(root.PersistentFlags())
	// All flags of kubectl work. The help shows only these.
	shown := []string{"as", "context", "kubeconfig", "namespace", "request-timeout", "server"}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = !slices.Contains(shown, f.Name) })
	root.AddCommand(claim.New(s), pool.New(s), class.New(s), network.New(s), address.New(s), address.NewHistory(s),
		tenant.New(s), transfer.NewImport(s), transfer.NewExport(s), claim.NewWhy(s), ui.New(s),
		tenant.NewInit(s), tenant.NewGrant(s), tenant.NewControllerKubeconfig(s), check.New(s), check.NewVersion(s))
	return root
}
