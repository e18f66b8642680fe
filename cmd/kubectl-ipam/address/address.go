// Package address is kubectl ipam address.
package address

import (
	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// New makes kubectl ipam address.
func New(s *session.Session) *cobra.Command {
	return session.Group(&cobra.Command{
		Use:     "address",
		Aliases: []string{"addresses"},
		Short:   "Show the state of an address, and its holder",
		Long:    `Show whether an address or a block is free, and which claim holds it.`,
		Example: `  kubectl ipam address show 10.64.3.7`,
	}, newShow(s))
}
