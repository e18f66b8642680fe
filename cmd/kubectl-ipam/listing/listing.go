// Package listing lists the objects of one kind.
package listing

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// Command is what every list is asked for with.
type Command struct {
	*session.Session
	Output   output.Printer
	selector string
	sortBy   string
	// Filter leaves out what is not to be listed; nil keeps all.
	Filter func(client.ObjectList)
}

// New makes the command that lists the objects of one kind.
func New(s *session.Session, short string, run func(context.Context, *Command) error) *cobra.Command {
	o := &Command{Session: s}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   short,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	o.Output.AddFlags(cmd)
	cmd.Flags().StringVar(&o.sortBy, "sort-by", "", "Field to sort by, as JSONPath, such as .status.allocatedCIDR")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "List only objects with these labels, such as site=fra")
	return cmd
}

// List prints what a namespace has, or all of them; if there is nothing it says so, and
// draws no table.
func (o *Command) List(ctx context.Context, list client.ObjectList, namespace, nothing string) error {
	selector, err := parseSelector(o.selector)
	if err != nil {
		return err
	}
	c, err := o.Client()
	if err != nil {
		return err
	}
	options := client.ListOptions{Namespace: namespace, LabelSelector: selector}
	if err := o.read(ctx, c, list, &options); err != nil {
		return err
	}
	if meta.LenList(list) == 0 && o.Output.Tabular() && o.Output.Format != output.CSV {
		o.Say("%s", nothing)
		return nil
	}
	return o.Output.Print(o.Out, list, o.Now)
}

// read reads a list and sorts it. Without --sort-by, the order is that of namespaces and names: in the workspaces
// of tenants, kcp lists classes in another order each time.
func (o *Command) read(ctx context.Context, c client.Client, list client.ObjectList, options *client.ListOptions) error {
	if err := c.List(ctx, list, options); err != nil {
		return err
	}
	if o.Filter != nil {
		o.Filter(list)
	}
	for _, field := range []string{".metadata.name", ".metadata.namespace", o.sortBy} {
		if err := output.Sort(list, field); err != nil {
			return err
		}
	}
	return nil
}

// parseSelector reads labels as people write them.
func parseSelector(text string) (labels.Selector, error) {
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, exit.Usagef("--selector is %q; write labels such as site=fra: %w", text, err)
	}
	return selector, nil
}
