package class

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

func newShow(s *session.Session) *cobra.Command {
	one := func(ctx context.Context, here session.Access, name string, out *output.Printer) error {
		return show(ctx, s, here, name, out)
	}
	cmd := output.NewShow(s, session.ClassNames, one)
	cmd.Short = "Show a class: its rules, and the pools of this workspace behind it"
	cmd.Long = `Show a class: its rules, how many pools of the platform back it, and the pools of this
workspace that back it, and how full each is.`
	cmd.Example = `  kubectl ipam class show internal`
	return cmd
}

func show(ctx context.Context, s *session.Session, c client.Reader, name string, out *output.Printer) error {
	class, err := session.Class(ctx, c, name)
	if err != nil {
		return err
	}
	if out.Given() {
		return out.Print(s.Out, class, s.Now)
	}
	pools := &ipamv1alpha1.IPPoolList{}
	if err := c.List(ctx, pools); exit.IgnoreUnseen(err) != nil {
		return err
	}
	return describeClass(s, class, slices.DeleteFunc(pools.Items, func(p ipamv1alpha1.IPPool) bool {
		return !slices.Contains(p.Spec.ClassNames, name)
	}))
}

func describeClass(s *session.Session, class *ipamv1alpha1.IPClass, pools []ipamv1alpha1.IPPool) error {
	page := s.Page()
	spec := class.Spec
	page.Line("Class", class.Name)
	if facts.IsDefault(class) {
		page.Line("Default", "of its family")
	}
	page.Painted("Phase", page.Phase(string(class.Status.Phase)))
	page.Line("Family", string(spec.IPFamily))
	page.Line("Lengths", facts.ClassLengths(class))
	page.Line("Length", cmp.Or(facts.Slash(spec.DefaultPrefixLength), "to be given in the claim"))
	page.Line("Strategy", string(spec.Strategy))
	page.Line("Parent", spec.ParentClassName)
	page.Line("Scope", strings.Join(class.Status.RequiredScopeRoles, ", "))
	makes := "a pool for each %s"
	if made := class.Status.ProvisionedPools; made > 0 { // zero for a class that everybody can read
		makes += "; there are " + fmt.Sprint(made)
	}
	if spec.Provisioning == ipamv1alpha1.ProvisionHeld {
		makes += ", by claim create --target range alone"
	}
	page.Words("Makes", makes, strings.Join(spec.PoolPer, " and "))
	page.Words("Unique", "within each %s", strings.Join(spec.UniqueWithin, " and "))
	if spec.Number != nil {
		page.Line("Number", fmt.Sprintf("the last %d bits of each address", spec.Number.Bits))
	}
	page.Line("Reclaim", string(spec.ReclaimPolicy))
	page.Words("Lease", "%s for what is retained, unless its pool says less", string(spec.RetentionLease))
	if spec.RetainedPolicy == ipamv1alpha1.RetainedReuse {
		page.Line("Retained", "a later claim of the same name, class and length gets the block back")
	}
	page.Line("Limit", facts.Limit(spec.MaxPerConsumer))
	page.Line("Cooldown", string(spec.ReleaseCooldown))
	page.Line("Platform", fmt.Sprintf("ready pools that back it: %d", class.Status.OfferingPools))
	facts.Describe(page, facts.AnswerOf(class))
	if len(pools) == 0 {
		page.Line("Here", "no pool of this workspace backs it")
		return nil
	}
	screen.Line(s.Out, "")
	return output.WriteTable(s.Out, output.Pools(pools, s.Now()))
}
