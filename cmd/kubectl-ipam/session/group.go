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

// kubectlDoes returns the command of another program, or the place, of what this one does not do here; empty
// if there is none.
func kubectlDoes(noun, verb string) string {
	switch kind := "ip" + noun; {
	case verb == "edit" && slices.Contains([]string{"ipclaim", "ippool", "ipclass"}, kind):
		return fmt.Sprintf("kubectl edit %s NAME", kind)
	case noun == "class" && slices.Contains([]string{"delete", "release", "rm"}, verb):
		return "kubectl delete ipclass NAME"
	case verb == "history":
		return "ipam-controller history"
	case noun == "kubectl-ipam" && slices.Contains([]string{"create", "delete", "describe", "get", "list", "ls", "release", "rm", "show"}, verb):
		return fmt.Sprintf("kubectl ipam claim %s, or another noun: pool, class, address", verb)
	}
	return ""
}
