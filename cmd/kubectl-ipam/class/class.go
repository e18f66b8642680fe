// Package class is kubectl ipam class.
package class

import (
	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// New makes kubectl ipam class.
func New(s *session.Session) *cobra.Command {
	return session.Group(&cobra.Command{
		Use:     "class",
		Aliases: []string{"classes"},
		Short:   "Create and inspect classes, the rules for claiming",
		Long: `A class says what can be claimed and by which rules: the address family, the lengths of
blocks, the limit of each workspace, and what happens to a block after its release. Admins
create classes in the platform workspace. Tenants claim by them.`,
		Example: `  # list the classes that this workspace can claim by
  kubectl ipam class list

  # show the rules of a class, and the pools behind it
  kubectl ipam class show internal`,
	}, newCreate(s), newList(s), newShow(s))
}
