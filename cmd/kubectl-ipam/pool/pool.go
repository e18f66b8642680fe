// Package pool has the command kubectl ipam pool.
package pool

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
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

func newList(s *session.Session) *cobra.Command {
	cmd := output.NewScopedList(s, "List the pools of this workspace", func(ctx context.Context, o *output.Listing) error {
		return o.List(ctx, &ipamv1alpha1.IPPoolList{}, "",
			"there are no pools in this workspace; claims by class use those of the platform")
	})
	cmd.Long = `List the pools of this workspace: the CIDR, how full each pool is, and the largest block
that it can still allocate. Pools of other workspaces are not listed.`
	cmd.Example = `  # list the pools with a label by address, with all columns
  kubectl ipam pool list -l site=fra --sort-by .status.allocatedCIDR -o wide`
	return cmd
}
