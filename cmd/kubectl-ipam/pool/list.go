package pool

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/listing"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

func newList(s *session.Session) *cobra.Command {
	cmd := listing.New(s, "List the pools of this workspace", func(ctx context.Context, o *listing.Command) error {
		return o.List(ctx, &ipamv1alpha1.IPPoolList{}, "",
			"there are no pools in this workspace; claims by class use those of the platform")
	})
	cmd.Long = `List the pools of this workspace: the CIDR, how full each pool is, and the largest block
that it can still allocate. Pools of other workspaces are not listed.`
	cmd.Example = `  kubectl ipam pool list

  # list the pools with a label by address, with all columns
  kubectl ipam pool list -l site=fra --sort-by .status.allocatedCIDR -o wide`
	return cmd
}
