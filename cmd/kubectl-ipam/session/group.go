package session

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

// Group makes the command of a noun, with a command for each of its verbs.
func Group(noun *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	noun.AddCommand(verbs...)
	refuseWords(noun)
	return noun
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
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.HasSubCommands() { // an unknown word is said before an unknown flag
			return cmp.Or(cmd.Args(cmd, cmd.Flags().Args()), err)
		}
		return err
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// kubectlDoes returns the command of another program, or of another noun, that does what a verb means here; empty
// if there is none.
func kubectlDoes(noun, verb string) string {
	is := func(verbs ...string) bool { return slices.Contains(verbs, verb) }
	switch {
	case is("history"):
		return "ipam-controller history"
	case noun == "kubectl-ipam" && is("create", "delete", "describe", "get", "list", "ls", "release", "rm", "show"):
		return fmt.Sprintf("kubectl ipam claim %s, or another noun: pool, class, address", verb)
	case is("edit") && slices.Contains([]string{"claim", "pool", "class"}, noun):
		return fmt.Sprintf("kubectl edit ip%s NAME", noun)
	case noun == "class" && is("delete", "release", "rm"):
		return "kubectl delete ipclass NAME"
	case noun == "address" && is("delete", "release", "rm", "edit"):
		return "kubectl ipam claim release NAME, with the claim that kubectl ipam address show names"
	case noun == "address" && is("list", "ls"):
		return "kubectl ipam address show CIDR"
	case noun == "tenant" && is("describe", "show"):
		return "kubectl ipam tenant list"
	case noun == "tenant" && is("edit"):
		return "kubectl edit apibinding NAME, in the workspace of the tenant"
	case noun == "tenant" && is("delete", "release", "rm"):
		return "kubectl delete apibinding NAME, in the workspace of the tenant, which releases all its claims"
	}
	return ""
}
