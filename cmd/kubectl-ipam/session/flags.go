package session

import (
	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
)

// AddFields gives a command a flag for each field, and completes those that take a few words.
func AddFields(cmd *cobra.Command, fields ...field.Field) {
	for _, f := range fields {
		cmd.Flags().Var(f.Value, f.Name, f.Usage)
		if words := f.Choices(); len(words) > 0 {
			CompleteWith(cmd, f.Name, words...)
		}
	}
}

// Check adds to what is checked of a command line before the command runs. An error is one of usage.
func Check(cmd *cobra.Command, check func() error) {
	earlier := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if earlier != nil {
			if err := earlier(cmd, args); err != nil {
				return err
			}
		}
		return check()
	}
}
