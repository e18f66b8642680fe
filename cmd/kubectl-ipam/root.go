package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRoot is kubectl ipam with everything below it.
func newRoot(s *session) *cobra.Command {
	root := &cobra.Command{
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
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.ErrOut)
	s.flags.AddFlags(root.PersistentFlags())
	// All of kubectl's work; these are the ones to show with every command.
	shown := []string{"as", "context", "kubeconfig", "namespace", "server"}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = !slices.Contains(shown, f.Name) })
	root.AddCommand(
		group(aboutClaims,
			newClaimCreate(s, "create"), newClaimList(s), newClaimShow(s), newClaimRelease(s)),
		deprecated(group(noun{name: "prefix", short: "Alias of claim (deprecated)"},
			newClaimCreate(s, "claim"), newClaimList(s), newClaimShow(s), newClaimRelease(s))),
		group(aboutPools,
			newPoolCreate(s), newPoolList(s), newPoolShow(s), newPoolTree(s), newPoolNext(s), newPoolRelease(s)),
		group(aboutClasses,
			newClassCreate(s), newClassList(s), newClassShow(s)),
		group(aboutAddresses,
			newAddressShow(s)),
		group(aboutTenants,
			newTenantBind(s)),
		newImport(s),
		newExport(s),
		newWhy(s),
		newUI(s),
		newInit(s),
		newControllerKubeconfig(s),
		newCheck(s),
		newVerify(s),
		newVersion(s),
	)
	refuseWords(root)
	s.markStarts(root)
	return root
}

// group is the command of a noun, with a command for each of its verbs.
func group(n noun, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: n.name, Short: n.short, Long: n.long, Example: n.example}
	cmd.AddCommand(verbs...)
	refuseWords(cmd)
	return cmd
}

// deprecated hides a command, which works as before.
func deprecated(cmd *cobra.Command) *cobra.Command {
	cmd.Hidden = true
	return cmd
}

// refuseWords makes a command that only groups others refuse unknown words.
func refuseWords(cmd *cobra.Command) {
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if instead := kubectlDoes(cmd.Name(), args[0]); instead != "" {
			return fmt.Errorf("%s has no command %q; use %s", cmd.CommandPath(), args[0], instead)
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("%s has no command %q; did you mean %q?", cmd.CommandPath(), args[0], near[0])
		}
		return fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// kubectlDoes is the command of kubectl for what this program leaves to it; empty otherwise.
func kubectlDoes(noun, verb string) string {
	switch {
	case verb == "edit" && slices.Contains([]string{"claim", "pool", "class"}, noun):
		return fmt.Sprintf("kubectl edit ip%s NAME", noun)
	case verb == "delete" && noun == "class":
		return "kubectl delete ipclass NAME"
	}
	return ""
}

// markStarts makes every command note that its command line was valid.
func (s *session) markStarts(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		s.markStarts(below)
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.started = true
		return run(cmd, args)
	}
}
