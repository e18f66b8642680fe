// Package pool is kubectl ipam pool.
package pool

import (
	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// New makes kubectl ipam pool.
func New(s *session.Session) *cobra.Command {
	return session.Group(&cobra.Command{
		Use:     "pool",
		Aliases: []string{"pools"},
		Short:   "Create, inspect and release pools of address space",
		Long: `A pool is address space to claim from. A root pool has a CIDR of its own. The block of a
child pool is carved from a parent pool.

A pool serves the claims that name it, and backs the classes that it names.`,
		Example: `  # create a pool behind the class "internal", and show how full it is
  kubectl ipam pool create lab --cidr 10.8.0.0/16 --class internal
  kubectl ipam pool show lab`,
	}, newCreate(s), newList(s), newShow(s), newTree(s), newNext(s), newRelease(s))
}
