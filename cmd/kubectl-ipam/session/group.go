package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

// elsewhere are the verbs that a noun does not have, and the commands that do what they mean. No noun stands for all.
var elsewhere = []struct{ nouns, verbs, use string }{
	{"", "history", "ipam-controller history"},
	{"kubectl-ipam", "create delete describe get list ls release rm show", "kubectl ipam claim VERB, or another noun: pool, class, address"},
	{"claim pool class", "edit", "kubectl edit ipNOUN NAME"},
	{"class", "delete release rm", "kubectl delete ipclass NAME"},
	{"address", "delete release rm edit", "kubectl ipam claim release NAME, with the claim that kubectl ipam address show names"},
	{"address", "list ls", "kubectl ipam address show CIDR"},
	{"tenant", "describe show", "kubectl ipam tenant list"},
	{"tenant", "edit", "kubectl edit apibinding NAME, in the workspace of the tenant"},
	{"tenant", "delete release rm", "kubectl delete apibinding NAME, in the workspace of the tenant, which releases all its claims"},
}

// kubectlDoes returns the command of another program, or of another noun, that does what a verb means here; empty
// if there is none.
func kubectlDoes(noun, verb string) string {
	for _, one := range elsewhere {
		if (one.nouns == "" || slices.Contains(strings.Fields(one.nouns), noun)) && slices.Contains(strings.Fields(one.verbs), verb) {
			return strings.NewReplacer("NOUN", noun, "VERB", verb).Replace(one.use)
		}
	}
	return ""
}
