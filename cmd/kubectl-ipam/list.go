package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listing is what every list is asked for with.
type listing struct {
	*session
	output   output
	selector string
	sortBy   string
	watch    bool
	// filter leaves out what is not to be listed; nil keeps all.
	filter func(client.ObjectList)
}

// newList makes the command that lists the objects of one kind.
func newList(s *session, short string, run func(context.Context, *listing) error) *cobra.Command {
	o := &listing{session: s}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   short,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	o.output.addFlags(cmd)
	cmd.Flags().StringVar(&o.sortBy, "sort-by", "", "Field to sort by, as JSONPath, such as .status.allocatedCIDR")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "Print each change after the list, until interrupted")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "List only objects with these labels, such as site=fra")
	return cmd
}

// list prints what a namespace has, or all of them; if there is nothing it says so, and
// draws no table. Without --sort-by, the order is that of namespaces and names: in the workspaces of
// tenants, kcp lists classes in another order each time.
func (o *listing) list(ctx context.Context, list client.ObjectList, namespace, nothing string) error {
	selector, err := parseSelector(o.selector)
	if err != nil {
		return err
	}
	if err := o.output.validate(); err != nil {
		return err
	}
	c, err := o.client()
	if err != nil {
		return err
	}
	options := client.ListOptions{Namespace: namespace, LabelSelector: selector}
	if err := c.List(ctx, list, &options); err != nil {
		return err
	}
	if o.filter != nil {
		o.filter(list)
	}
	for _, field := range []string{".metadata.name", ".metadata.namespace", o.sortBy} {
		if err := sortList(list, field); err != nil {
			return err
		}
	}
	empty := meta.LenList(list) == 0 && o.output.tabular() && o.output.format != outputCSV
	if empty {
		o.say("%s", nothing)
	}
	switch {
	case o.watch:
		return newWatchPrinter(o).run(ctx, c, list, options)
	case empty:
		return nil
	}
	return o.output.print(o.Out, list, o.now)
}
