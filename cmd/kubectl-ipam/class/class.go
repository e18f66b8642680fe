// Package class has the command kubectl ipam class.
package class

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
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
		Example: `  # show the rules of a class, and the pools behind it
  kubectl ipam class show internal`,
	}, newCreate(s), newList(s), newShow(s))
}

func newList(s *session.Session) *cobra.Command {
	list := func(ctx context.Context, o *output.Listing) error {
		return o.List(ctx, &ipamv1alpha1.IPClassList{}, "",
			"there are no classes for everybody; the platform may have others, to be claimed by name")
	}
	cmd := output.NewList(s, "List the classes that this workspace is shown", list)
	cmd.Long = `List the classes that this workspace is shown, with their rules. The platform may have
further classes for some workspaces only. They are not listed, and can be claimed by name.`
	cmd.Example = `  # list the limit of each class as well
  kubectl ipam class list -o wide`
	return cmd
}
