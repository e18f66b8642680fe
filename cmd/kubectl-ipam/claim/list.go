package claim

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/listing"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

func newList(s *session.Session) *cobra.Command {
	all, kept := false, false
	cmd := listing.New(s, "List claims and what they hold", func(ctx context.Context, o *listing.Command) error {
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
	})
	cmd.Long = `List the claims of a namespace: what each asks for, the block that it holds, or the reason
why it waits. With --retained, list the blocks that outlived their claims instead.`
	cmd.Example = `  kubectl ipam claim list

  # print the block of each claim of all namespaces
  kubectl ipam claim list -A -o jsonpath={.items[*].status.allocatedCIDR}

  # list the blocks that are retained, and when each expires
  kubectl ipam claim list --retained`
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "List the claims of all namespaces")
	cmd.Flags().BoolVar(&kept, "retained", false, "List the blocks that are retained from deleted claims, and when each expires")
	return cmd
}
