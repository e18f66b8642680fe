package transfer

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// planExport is kubectl ipam export.
type planExport struct {
	*session.Session
	report output.Printer
	all    bool
}

// NewExport makes kubectl ipam export.
func NewExport(s *session.Session) *cobra.Command {
	o := &planExport{Session: s}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the address plan of this workspace, for kubectl ipam import",
		Long: `Print the pools of this workspace, and the claims of a namespace with their exact blocks,
as manifests or as a table. kubectl ipam import reads both, in this workspace or another.

Claims of ranges come with their CIDRs, and bring back the networks that they hold, with the
claims inside. Networks that no claim holds, the claims in them, slices, and claims and
pools that wait are left out, because a plan cannot ask for their blocks. The command names
each of them on stderr. Retained blocks, and all annotations except descriptions, are left
out as well.`,
		Example: `  # copy the plan into another workspace
  kubectl ipam export -A > plan.yaml
  kubectl ipam --context elsewhere import plan.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "Print the claims of all namespaces")
	o.report.AddFlags(cmd)
	return cmd
}

func (o *planExport) run(ctx context.Context) error {
	c, err := o.Here()
	if err != nil {
		return err
	}
	if o.all {
		c.Namespace = ""
	}
	pools, claims := &ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPClaimList{}
	if err := c.List(ctx, pools); err != nil {
		return err
	}
	if err := c.List(ctx, claims, client.InNamespace(c.Namespace)); err != nil {
		return err
	}
	p, left := plan.Of(pools.Items, claims.Items)
	more, err := o.print(p)
	for _, one := range more {
		left = append(left, one+": a table cannot say all of it; -o yaml can")
	}
	for _, one := range left {
		o.Say("left out: %s", one)
	}
	return err
}

// print prints the plan. left names what the form of output cannot express.
func (o *planExport) print(p *plan.Plan) (left []string, _ error) {
	switch {
	case o.report.Format == output.CSV:
		return plan.WriteCSV(o.Out, p)
	case o.report.Format == output.Name:
		return nil, printNames(o.Out, stepsOf(p))
	case o.report.Format != output.YAML && !o.report.Tabular():
		return nil, o.report.PrintReport(o.Out, p.List(), nil)
	}
	for _, object := range p.Objects() {
		screen.Line(o.Out, "---")
		if err := o.report.PrintReport(o.Out, object, nil); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
