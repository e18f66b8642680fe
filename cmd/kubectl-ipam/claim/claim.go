// Package claim has the commands kubectl ipam claim and kubectl ipam why.
package claim

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
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
  kubectl ipam claim release app`,
	}, newCreate(s), newList(s), newShow(s), newRelease(s), newMove(s), newPin(s))
}

func newList(s *session.Session) *cobra.Command {
	all, kept := false, false
	list := func(ctx context.Context, o *output.Listing) error {
		namespace, err := o.Namespace()
		if err != nil {
			return err
		}
		nothing := "there are no claims in the namespace " + namespace
		if all {
			namespace, o.Output.Namespaces, nothing = "", true, "there are no claims"
		}
		if kept {
			return listRetained(ctx, o, namespace)
		}
		return o.List(ctx, &ipamv1alpha1.IPClaimList{}, namespace, nothing)
	}
	cmd := output.NewScopedList(s, "List claims and the block of each", list)
	cmd.Long = `List the claims of a namespace: the length or address that each asks for, its block, or the reason
why it waits. With --retained, list the blocks that outlived their claims instead.`
	cmd.Example = `  # print the block of each claim of all namespaces
  kubectl ipam claim list -A -o jsonpath={.items[*].status.allocatedCIDR}`
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "List the claims of all namespaces")
	cmd.Flags().BoolVar(&kept, "retained", false,
		"List the blocks that are retained from deleted claims, and when each expires")
	return cmd
}
