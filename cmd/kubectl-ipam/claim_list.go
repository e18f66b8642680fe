package main

import (
	"context"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

func newClaimList(s *session) *cobra.Command {
	all, kept := false, false
	cmd := newList(s, "List claims and what they hold", func(ctx context.Context, o *listing) error {
		namespace, err := o.namespace()
		if err != nil {
			return err
		}
		nothing := "there are no claims in the namespace " + namespace
		if all {
			namespace, o.output.namespaces, nothing = "", true, "there are no claims"
		}
		if kept {
			return o.listRetained(ctx, namespace)
		}
		return o.list(ctx, &ipamv1alpha1.IPClaimList{}, namespace, nothing)
	})
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "Those of all namespaces")
	cmd.Flags().BoolVar(&kept, "retained", false, "What was retained from claims that are gone, and when it expires")
	cmd.MarkFlagsMutuallyExclusive("retained", "watch")
	return cmd
}
