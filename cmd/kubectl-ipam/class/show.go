package class

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"net/netip"
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
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/plural"
)

func newShow(s *session.Session) *cobra.Command {
	cmd := output.NewShow(s, session.ClassNames, func(ctx context.Context, here session.Access, name string, out *output.Printer) error {
		return show(ctx, s, here, name, out)
	})
	cmd.Short = "Show a class: its rules, and the pools of this workspace behind it"
	cmd.Long = `Show a class: its rules, how many pools of the platform back it, and the pools of this
workspace that back it, and how full each is.`
	cmd.Example = `  kubectl ipam class show internal`
	return cmd
}

func show(ctx context.Context, s *session.Session, c client.Reader, name string, out *output.Printer) error {
	class, err := reach.Class(ctx, c, name)
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
	return describeClass(s, class, slices.DeleteFunc(pools.Items, func(p ipamv1alpha1.IPPool) bool { return !slices.Contains(p.Spec.ClassNames, name) }))
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
	page.Words("Makes", "a pool for each %s; there are "+fmt.Sprint(class.Status.ProvisionedPools), strings.Join(spec.PoolPer, " and "))
	page.Words("Unique", "within each %s", strings.Join(spec.UniqueWithin, " and "))
	page.Line("Reclaim", string(spec.ReclaimPolicy))
	page.Words("Lease", "%s for what is retained, unless its pool says less", string(spec.RetentionLease))
	if spec.RetainedPolicy == ipamv1alpha1.RetainedReuse {
		page.Line("Retained", "a later claim of the same name, class and length gets the block back")
	}
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

// givenBy returns the lengths that a pool can give to claims of a class. ok is false if the pool gives none: it is not
// ready, of the other family, or its lengths and those of the class have none in common.
func givenBy(class *ipamv1alpha1.IPClass, pool *ipamv1alpha1.IPPool) (given ipamv1alpha1.PrefixLengthRange, ok bool) {
	cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil || !facts.AnswerOf(pool).Given() || pool.Status.IPFamily != class.Spec.IPFamily {
		return given, false
	}
	given.Min, given.Max = space.Lengths(cidr, pool.Spec)
	if allowed := class.Spec.AllowedPrefixLengths; allowed != nil {
		given.Min, given.Max = max(given.Min, allowed.Min), min(given.Max, allowed.Max)
	}
	return given, given.Min <= given.Max
}

// unfitFor says what keeps a pool from serving claims of a class, those of its default length at least; empty if
// nothing does.
func unfitFor(class *ipamv1alpha1.IPClass, pool *ipamv1alpha1.IPPool) string {
	given, ok := givenBy(class, pool)
	length := class.Spec.DefaultPrefixLength
	switch {
	case !facts.AnswerOf(pool).Given():
		return "serves no claim: it is not ready"
	case pool.Status.IPFamily != class.Spec.IPFamily:
		return fmt.Sprintf("serves no claim of this class: it is %s", pool.Status.IPFamily)
	case !ok:
		return fmt.Sprintf("serves no claim of this class: it has no length from %s", facts.ClassLengths(class))
	case length != 0 && (length < given.Min || length > given.Max):
		return fmt.Sprintf("gives %s, and not the default length of this class, /%d", facts.Lengths(given.Min, given.Max), length)
	}
	return ""
}

// headRoom adds up what pools could still give to claims of a class.
func headRoom(class *ipamv1alpha1.IPClass, pools []ipamv1alpha1.IPPool) string {
	free, least := new(big.Int), int32(129)
	for i := range pools {
		given, ok := givenBy(class, &pools[i])
		largest := pools[i].Status.LargestFreePrefix
		if !ok || largest == nil || *largest > given.Max {
			continue
		}
		if capacity := pools[i].Status.Capacity; capacity != nil {
			if n, ok := new(big.Int).SetString(capacity.Available, 10); ok {
				free.Add(free, n)
			}
		}
		least = min(least, max(*largest, given.Min))
	}
	if least > 128 {
		return "nothing is free for claims of this class"
	}
	return fmt.Sprintf("%s free, in blocks of up to /%d", plural.Of(free.String(), "address", "addresses"), least)
}
