package class

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

func newShow(s *session.Session) *cobra.Command {
	out := &output.Printer{}
	cmd := &cobra.Command{
		Use:     "show NAME",
		Aliases: []string{"get", "describe"},
		Short:   "Show a class: its rules, and the pools of this workspace behind it",
		Long: `Show a class: its rules, how many pools of the platform back it, and the pools of this
workspace that back it, and how full each is.`,
		Example: `  kubectl ipam class show internal`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return show(cmd.Context(), s, args[0], out) },
	}
	out.AddFlags(cmd)
	session.CompleteArgs(s, cmd, session.ClassNames)
	return cmd
}

func show(ctx context.Context, s *session.Session, name string, out *output.Printer) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	class, err := classNamed(ctx, c, name)
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
	return describeClass(s, class, backing(pools.Items, name))
}

// classNamed finds a class among those that are listed here: kcp answers the GET
// of a class that it does not publish with an internal error.
func classNamed(ctx context.Context, c client.Client, name string) (*ipamv1alpha1.IPClass, error) {
	list := &ipamv1alpha1.IPClassList{}
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Name == name {
			return &list.Items[i], nil
		}
	}
	return nil, exit.Missing("ipclasses", name)
}

// backing are the pools that name a class.
func backing(pools []ipamv1alpha1.IPPool, class string) []ipamv1alpha1.IPPool {
	return slices.DeleteFunc(pools, func(p ipamv1alpha1.IPPool) bool { return !slices.Contains(p.Spec.ClassNames, class) })
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
	page.Line("Makes", makes(class))
	page.Line("Unique", unique(spec))
	page.Line("Reclaim", string(spec.ReclaimPolicy))
	page.Line("Lease", leaseOf(spec))
	page.Line("Retained", retainedOf(spec))
	page.Line("Limit", facts.Limit(spec.MaxPerConsumer))
	page.Line("Cooldown", string(spec.ReleaseCooldown))
	page.Line("Platform", fmt.Sprintf("ready pools that back it: %d", class.Status.OfferingPools))
	if ready := meta.FindStatusCondition(class.Status.Conditions, ipamv1alpha1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		page.Painted("Reason", s.Paint.Yellow(ready.Reason))
		page.Line("", ready.Message)
		page.Line("To do", ipamv1alpha1.Reason(ready.Reason).Remedy())
	}
	if len(pools) == 0 {
		page.Line("Here", "no pool of this workspace backs it")
		return nil
	}
	page.Line("Here", headRoom(class, pools))
	screen.Line(s.Out, "")
	if err := output.WriteTable(s.Out, output.Pools(pools, s.Now())); err != nil {
		return err
	}
	for i := range pools {
		if unfit := unfitFor(class, &pools[i]); unfit != "" {
			screen.Line(s.Out, "%s pool %s %s", s.Paint.Yellow("warning:"), pools[i].Name, unfit)
		}
	}
	return nil
}

// makes names the roles by which a class makes pools, and counts the pools.
func makes(class *ipamv1alpha1.IPClass) string {
	if len(class.Spec.PoolPer) == 0 {
		return ""
	}
	return fmt.Sprintf("a pool for each %s; there are %d", strings.Join(class.Spec.PoolPer, " and "), class.Status.ProvisionedPools)
}

// unique names the roles within which an address of a class is given once; empty if that is its pool.
func unique(spec ipamv1alpha1.IPClassSpec) string {
	if len(spec.UniqueWithin) == 0 {
		return ""
	}
	return "within each " + strings.Join(spec.UniqueWithin, " and ")
}

// leaseOf says how long a class retains a block.
func leaseOf(spec ipamv1alpha1.IPClassSpec) string {
	if spec.RetentionLease == "" {
		return ""
	}
	return string(spec.RetentionLease) + " for what is retained, unless its pool says less"
}

// retainedOf says what a claim of a class makes of what is retained for its name.
func retainedOf(spec ipamv1alpha1.IPClassSpec) string {
	if spec.RetainedPolicy != ipamv1alpha1.RetainedReuse {
		return ""
	}
	return "a later claim of the same name, class and length gets the block back"
}
