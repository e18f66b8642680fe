// Package claim is kubectl ipam claim, and kubectl ipam why.
package claim

import (
	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// New makes kubectl ipam claim.
func New(s *session.Session) *cobra.Command {
	return session.Group(&cobra.Command{
		Use:     "claim",
		Aliases: []string{"claims"},
		Short:   "Claim blocks of addresses, and release them",
		Long: `A claim asks for a block of addresses and holds it until the claim is deleted. It belongs
to a namespace of the current workspace. A class decides from which pools the block comes,
unless the claim names a pool.

A claim that cannot be met now waits, and is bound when the cause is gone.`,
		Example: `  # claim a /28 by the class "internal", and release it
  kubectl ipam claim create app --class internal --length 28
  kubectl ipam claim release app

  # list the claims of all namespaces
  kubectl ipam claim list -A`,
	}, newCreate(s), newList(s), newShow(s), newTree(s), newRelease(s))
}
