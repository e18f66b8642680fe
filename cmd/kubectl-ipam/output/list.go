package output

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// Listing is a list, and how it is asked for.
type Listing struct {
	*session.Session
	Output   Printer
	selector string
	sortBy   string
	// Filter leaves out what is not to be listed; nil keeps all.
	Filter func(client.ObjectList)
}

// NewList makes the command that lists the objects of one kind.
func NewList(s *session.Session, short string, run func(context.Context, *Listing) error) *cobra.Command {
	o := &Listing{Session: s}
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

// NewShow makes the command that shows the object of a name.
func NewShow(s *session.Session, names session.Names, show func(ctx context.Context, here session.Access, name string, out *Printer) error) *cobra.Command {
	out := &Printer{}
	cmd := &cobra.Command{
		Use:     "show NAME",
		Aliases: []string{"get", "describe"},
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			here, err := s.Here()
			if err != nil {
				return err
			}
			return show(cmd.Context(), here, args[0], out)
		},
	}
	out.AddFlags(cmd)
	session.CompleteArgs(s, cmd, names)
	return cmd
}

// List prints what a namespace has, or all of them; if there is nothing it says so, and
// draws no table.
func (o *Listing) List(ctx context.Context, list client.ObjectList, namespace, nothing string) error {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return exit.Usagef("--selector is %q; write labels such as site=fra: %w", o.selector, err)
	}
	here, err := o.Here()
	if err != nil {
		return err
	}
	options := client.ListOptions{Namespace: namespace, LabelSelector: selector}
	if err := o.read(ctx, here, list, &options); err != nil {
		return err
	}
	if meta.LenList(list) == 0 && o.Output.Tabular() && o.Output.Format != CSV {
		o.Say("%s", nothing)
		return nil
	}
	return o.Output.Print(o.Out, list, o.Now)
}

// read reads a list and sorts it. Without --sort-by, the order is that of namespaces and names: in the workspaces
// of tenants, kcp lists classes in another order each time.
func (o *Listing) read(ctx context.Context, c client.Client, list client.ObjectList, options *client.ListOptions) error {
	if err := c.List(ctx, list, options); err != nil {
		return err
	}
	if o.Filter != nil {
		o.Filter(list)
	}
	for _, field := range []string{".metadata.name", ".metadata.namespace", o.sortBy} {
		if err := Sort(list, field); err != nil {
			return err
		}
	}
	return nil
}
