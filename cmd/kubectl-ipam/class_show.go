package main

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

func newClassShow(s *session) *cobra.Command {
	out := &output{}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a class: its rules, and the pools of this workspace behind it",
		Long: `Show a class: its rules, how many pools of the platform back it, and the pools of this
workspace that back it, and how full each is.`,
		Example: `  kubectl ipam class show internal`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return s.classShow(cmd.Context(), args[0], out) },
	}
	out.addFlags(cmd)
	completeArgs(s, cmd, classNames)
	return cmd
}

func (s *session) classShow(ctx context.Context, name string, out *output) error {
	if err := out.validate(); err != nil {
		return err
	}
	c, err := s.client()
	if err != nil {
		return err
	}
	class, err := classNamed(ctx, c, name)
	if err != nil {
		return err
	}
	if out.given() {
		return out.print(s.Out, class, s.now)
	}
	pools := &ipamv1alpha1.IPPoolList{}
	if err := c.List(ctx, pools); ignoreUnseen(err) != nil {
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
	return nil, notFound("ipclasses", name)
}

// backing are the pools that name a class.
func backing(pools []ipamv1alpha1.IPPool, class string) []ipamv1alpha1.IPPool {
	return slices.DeleteFunc(pools, func(p ipamv1alpha1.IPPool) bool { return !slices.Contains(p.Spec.ClassNames, class) })
}

func describeClass(s *session, class *ipamv1alpha1.IPClass, pools []ipamv1alpha1.IPPool) error {
	page := sheet{w: s.Out, paint: s.out}
	spec := class.Spec
	page.line("Class", class.Name)
	if isDefault(class) {
		page.line("Default", "of its family")
	}
	page.painted("Phase", page.phase(string(class.Status.Phase)))
	page.line("Family", string(spec.IPFamily))
	page.line("Lengths", classLengths(class))
	page.line("Length", cmp.Or(slash(spec.DefaultPrefixLength), "to be given in the claim"))
	page.line("Strategy", string(spec.Strategy))
	page.line("Reclaim", string(spec.ReclaimPolicy))
	page.line("Lease", leaseOf(spec))
	page.line("Retained", retainedOf(spec))
	page.line("Limit", limitOf(spec.MaxPerConsumer))
	page.line("Cooldown", string(spec.ReleaseCooldown))
	page.line("Platform", fmt.Sprintf("ready pools that back it: %d", class.Status.OfferingPools))
	if ready := meta.FindStatusCondition(class.Status.Conditions, ipamv1alpha1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		page.painted("Reason", s.out.yellow(ready.Reason))
		page.line("", ready.Message)
		page.line("To do", ipamv1alpha1.Reason(ready.Reason).Remedy())
	}
	if len(pools) == 0 {
		page.line("Here", "no pool of this workspace backs it")
		return nil
	}
	page.line("Here", headRoom(pools))
	printLine(s.Out, "")
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(poolTable(pools, s.now()), s.Out)
}

// headRoom is what pools could still give.
func headRoom(pools []ipamv1alpha1.IPPool) string {
	free := new(big.Int)
	largest := ""
	least := int32(129)
	for i := range pools {
		status := &pools[i].Status
		if status.Capacity != nil {
			if n, ok := new(big.Int).SetString(status.Capacity.Available, 10); ok {
				free.Add(free, n)
			}
		}
		if status.LargestFreePrefix != nil && *status.LargestFreePrefix < least {
			least = *status.LargestFreePrefix
			largest = ", in blocks of up to " + largestFree(&pools[i])
		}
	}
	return fmt.Sprintf("%s addresses free%s", free, largest)
}

// limitOf says how much a workspace may hold; empty if there is no limit.
func limitOf(count ipamv1alpha1.AddressCount) string {
	if count == "" {
		return ""
	}
	return string(count) + " addresses for each workspace"
}
