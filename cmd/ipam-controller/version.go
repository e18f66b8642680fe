package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/internal/build"
)

// built names the version of this program, and that of the Go that built it.
func built() string { return fmt.Sprintf("%s, %s", build.Version(), build.Go()) }

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "ipam-controller", built())
			return err
		},
	}
}
