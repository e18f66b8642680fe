package output

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// Listing is a list, with the flags that select, sort and print it.
type Listing struct {
	*session.Session
	Output   Printer
	selector string
	sortBy   string
	scope    ipamv1alpha1.Scope
	// Filter removes items from the list before it is printed; nil keeps all.
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

// NewScopedList makes the command that lists the objects of a kind whose objects may have a scope.
func NewScopedList(s *session.Session, short string, run func(context.Context, *Listing) error) *cobra.Command {
	var scope ipamv1alpha1.Scope
	cmd := NewList(s, short, func(ctx context.Context, o *Listing) error {
		o.scope = scope
		return run(ctx, o)
	})
	cmd.Flags().Var(field.Scope(&scope), "scope",
		"List only objects for this one, as ROLE=NAME, such as network=vpc-1; several: with commas")
	return cmd
}

// within removes from a list the claims, pools or allocations whose scope lacks an object of this scope.
func within(list client.ObjectList, scope ipamv1alpha1.Scope) {
	other := func(of ipamv1alpha1.Scope) bool { return !facts.Inside(of, scope) }
	switch list := list.(type) {
	case *ipamv1alpha1.IPClaimList:
		list.Items = slices.DeleteFunc(list.Items, func(c ipamv1alpha1.IPClaim) bool { return other(c.Spec.Scope) })
	case *ipamv1alpha1.IPPoolList:
		list.Items = slices.DeleteFunc(list.Items, func(p ipamv1alpha1.IPPool) bool { return other(p.Spec.Scope) })
	case *ipamv1alpha1.IPAllocationList:
		list.Items = slices.DeleteFunc(list.Items, func(a ipamv1alpha1.IPAllocation) bool { return other(a.Spec.Scope) })
	}
}

// NewShow makes the command that shows the object with a given name.
func NewShow(
	s *session.Session, names session.Names,
	show func(ctx context.Context, here session.Access, name string, out *Printer) error,
) *cobra.Command {
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

// List prints the objects of a namespace; empty: of all. If there are none, it says so instead of printing an empty
// table.
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

// read reads a list and sorts it. Without --sort-by it sorts by namespace and name, because kcp lists the classes in a
// tenant's workspace in another order each time.
func (o *Listing) read(
	ctx context.Context, c client.Client, list client.ObjectList, options *client.ListOptions,
) error {
	if err := c.List(ctx, list, options); err != nil {
		return err
	}
	within(list, o.scope)
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
