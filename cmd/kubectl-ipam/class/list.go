package class

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/listing"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

func newList(s *session.Session) *cobra.Command {
	cmd := listing.New(s, "List the classes that this workspace is shown", func(ctx context.Context, o *listing.Command) error {
		return o.List(ctx, &ipamv1alpha1.IPClassList{}, "",
			"there are no classes for everybody; the platform may have others, to be claimed by name")
	})
	cmd.Long = `List the classes that this workspace is shown, with their rules. The platform may have
further classes for some workspaces only. They are not listed, and can be claimed by name.`
	cmd.Example = `  kubectl ipam class list

  # list the limit of each class as well
  kubectl ipam class list -o wide`
	return cmd
}
