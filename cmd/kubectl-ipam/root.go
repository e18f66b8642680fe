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
		Short:       "Claim IP address space, and look after it",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl ipam"},
		Long: `kubectl ipam claims IP address space in the current workspace, and shows who holds what.

It speaks the Kubernetes API alone, and takes every connection flag of kubectl. Data
goes to stdout and words go to stderr. The exit code is 0 ok, 1 error, 2 usage,
3 forbidden, 4 not found, 5 conflict, 6 invalid, 7 exhausted, 8 unavailable, 9 aborted.`,
		Example: `  # a /28 by the class "internal": waits, and prints the CIDR
  kubectl ipam claim create app --class internal --length 28

  # why a claim is not bound, and what would help
  kubectl ipam why app

  # how full the pools are
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
		group("claim", "Ask for blocks of addresses, and give them back",
			newClaimCreate(s, "create"), newClaimList(s), newClaimShow(s), newClaimRelease(s)),
		deprecated(group("prefix", "Alias of claim (deprecated)",
			newClaimCreate(s, "claim"), newClaimList(s), newClaimShow(s), newClaimRelease(s))),
		group("pool", "Look after address space to claim from",
			newPoolCreate(s), newPoolList(s), newPoolShow(s), newPoolTree(s), newPoolNext(s), newPoolRelease(s)),
		group("class", "Say and see what may be claimed here, and by which rules",
			newClassCreate(s), newClassList(s), newClassShow(s)),
		group("address", "See whether an address is free, and who holds it",
			newAddressShow(s)),
		group("tenant", "Serve the API to workspaces",
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

// group is a noun: the commands are its verbs.
func group(noun, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: noun, Short: short}
	cmd.AddCommand(verbs...)
	refuseWords(cmd)
	return cmd
}

// deprecated hides a command, which works as before.
func deprecated(cmd *cobra.Command) *cobra.Command {
	cmd.Hidden = true
	return cmd
}

// refuseWords has a command that only leads to others refuse what it does not know.
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

// markStarts has every command note that its command line was understood.
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
