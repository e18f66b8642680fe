package main

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// listing is what every list is asked for with.
type listing struct {
	*session
	output   output
	selector string
	all      bool
}

func (o *listing) addFlags(cmd *cobra.Command) {
	o.output.addFlags(cmd)
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "Only those with these labels, such as site=fra")
}

// options are the choice of objects.
func (o *listing) options(namespace string) (*client.ListOptions, error) {
	selector, err := parseSelector(o.selector)
	if err != nil {
		return nil, err
	}
	return &client.ListOptions{Namespace: namespace, LabelSelector: selector}, o.output.validate()
}

// show prints a list. No table is drawn of nothing.
func (o *listing) show(list client.ObjectList, number int, nothing string) error {
	if number == 0 && o.output.tabular() {
		o.say("%s", nothing)
		return nil
	}
	return o.output.print(o.Out, list, o.now)
}

func newClaimList(s *session) *cobra.Command {
	o := &listing{session: s}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List claims and what they hold",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.claims(cmd.Context()) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "Those of all namespaces")
	return cmd
}

func (o *listing) claims(ctx context.Context) error {
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	nothing := "there are no claims in the namespace " + namespace
	if o.all {
		namespace, o.output.namespaces, nothing = "", true, "there are no claims"
	}
	options, err := o.options(namespace)
	if err != nil {
		return err
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	list := &ipamv1alpha1.IPClaimList{}
	if err := c.List(ctx, list, options); err != nil {
		return err
	}
	return o.show(list, len(list.Items), nothing)
}
