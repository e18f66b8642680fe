package session

import (
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
