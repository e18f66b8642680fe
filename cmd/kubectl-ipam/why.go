package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/printers"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

func newWhy(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why CLAIM",
		Short: "Explain why a claim is not bound, and what would help",
		Long: `Explain why a claim is not bound: the reason, the pools of this workspace that could serve
the claim, and what keeps each of them from it.

The exit code is 0 whenever the command has an answer. claim create ends with the code of
the reason.`,
		Example: `  kubectl ipam why app`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return s.why(cmd.Context(), args[0]) },
	}
	completeArgs(s, cmd, claimNames)
	return cmd
}

func (s *session) why(ctx context.Context, name string) error {
	claim, err := s.claim(ctx, name)
	if err != nil {
		return err
	}
	if now := answerOf(claim); now.given() {
		printLine(s.Out, "claim %s is bound: it holds %s", nameOf(claim), now.data)
		return nil
	}
	q, err := s.question(ctx, claim)
	if err != nil {
		return err
	}
	return q.explain(s)
}

// question is a claim that waits, and what comes into question for it.
type question struct {
	claim *ipamv1alpha1.IPClaim
	class *ipamv1alpha1.IPClass      // nil without one that is seen
	pools []ipamv1alpha1.IPPool      // of this workspace
	kept  *ipamv1alpha1.IPAllocation // from a former claim of the name; nil for nothing
}

// question reads what the caller may see of classes and pools.
func (s *session) question(ctx context.Context, claim *ipamv1alpha1.IPClaim) (question, error) {
	q := question{claim: claim}
	c, err := s.client()
	if err != nil {
		return q, err
	}
	if q.kept, err = s.retained(ctx, claim.Name); ignoreUnseen(err) != nil {
		return q, err
	}
	classes := &ipamv1alpha1.IPClassList{}
	if err := c.List(ctx, classes); ignoreUnseen(err) != nil {
		return q, err
	}
	for i := range classes.Items {
		if classes.Items[i].Name == className(claim) {
			q.class = &classes.Items[i]
		}
	}
	pools := &ipamv1alpha1.IPPoolList{}
	if err := c.List(ctx, pools); ignoreUnseen(err) != nil {
		return q, err
	}
	q.pools = slices.DeleteFunc(pools.Items, func(p ipamv1alpha1.IPPool) bool { return !q.concerns(&p) })
	return q, nil
}

// concerns reports whether the claim asks for the pool, directly or by its class.
func (q question) concerns(pool *ipamv1alpha1.IPPool) bool {
	switch spec := q.claim.Spec; {
	case spec.PoolRef != nil:
		return spec.PoolRef.ProjectRef == nil && pool.Name == spec.PoolRef.Name
	case spec.PoolSelector != nil:
		selector, err := metav1.LabelSelectorAsSelector(spec.PoolSelector.LabelSelector())
		return err == nil && spec.PoolSelector.ProjectRef == nil && selector.Matches(labels.Set(pool.Labels))
	default:
		return slices.Contains(pool.Spec.ClassNames, className(q.claim))
	}
}

// explain writes the answer, the pools and what to do.
func (q question) explain(s *session) error {
	now := answerOf(q.claim)
	printLine(s.Out, "claim %s is not bound: %s", s.out.bold(nameOf(q.claim)), s.out.yellow(reasonOrNone(now)))
	if now.allocated != nil {
		for said := range strings.SplitSeq(now.allocated.Message, "; ") {
			printLine(s.Out, "  %s", said)
		}
	}
	if q.class != nil {
		printLine(s.Out, "")
		printLine(s.Out, "class %s: %s, %s, ready pools on the platform: %d", q.class.Name, q.class.Spec.IPFamily,
			classLengths(q.class), q.class.Status.OfferingPools)
	}
	if err := q.drawPools(s); err != nil {
		return err
	}
	printLine(s.Out, "")
	if now.allocated != nil {
		printLine(s.Out, "to do: %s", ipamv1alpha1.Reason(now.allocated.Reason).Remedy())
		q.waysOut(s)
	}
	if best := q.largest(); best != 0 {
		printLine(s.Out, "the largest block that these pools could give is a /%d", best)
	}
	return nil
}

func reasonOrNone(a answer) string {
	if a.allocated == nil {
		return "there is no answer yet"
	}
	return a.allocated.Reason
}

// drawPools lists the pools of this workspace with what keeps each from serving the claim.
func (q question) drawPools(s *session) error {
	if len(q.pools) == 0 {
		if said := q.noPools(); said != "" {
			printLine(s.Out, "")
			printLine(s.Out, "%s", said)
		}
		return nil
	}
	t := table("POOL", "CIDR", "UTIL", "LARGEST FREE", "VERDICT")
	for i := range q.pools {
		p := &q.pools[i]
		t.Rows = append(t.Rows, row(p, p.Name, cidrOf(p), utilisation(p), largestFree(p), q.verdict(p)))
	}
	printLine(s.Out, "")
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(t, s.Out)
}

// noPools says what it means that no pool of this workspace is asked for; empty if that is no
// reason why the claim is not bound.
func (q question) noPools() string {
	switch spec := q.claim.Spec; {
	case spec.PoolRef != nil && spec.PoolRef.ProjectRef != nil, spec.PoolSelector != nil && spec.PoolSelector.ProjectRef != nil:
		return "the pools of " + q.elsewhere() + " are not shown to you"
	case spec.PoolRef != nil, spec.PoolSelector != nil:
		return "no pool of this workspace comes into question"
	case q.class == nil:
		return ""
	case q.class.Status.OfferingPools > 0:
		return "the platform's pools serve this class; a pool of this workspace is not needed"
	default:
		return "neither the platform nor this workspace has a ready pool for this class"
	}
}

// elsewhere is the workspace whose pools the claim asks for.
func (q question) elsewhere() string {
	if q.claim.Spec.PoolRef != nil {
		return q.claim.Spec.PoolRef.ProjectRef.Name
	}
	return q.claim.Spec.PoolSelector.ProjectRef.Name
}

// verdict is what a pool has to say to the claim.
func (q question) verdict(pool *ipamv1alpha1.IPPool) string {
	status, bounds, length := pool.Status, pool.Spec.Allocation, q.length(pool)
	cidr, err := netip.ParsePrefix(status.AllocatedCIDR)
	if err != nil || !answerOf(pool).given() {
		return "not ready: " + cmp.Or(reasonOf(status.Conditions), "no answer yet")
	}
	if family := q.family(); family != "" && family != status.IPFamily {
		return fmt.Sprintf("is %s; the claim is %s", status.IPFamily, family)
	}
	if said := q.withheld(pool, cidr); said != "" {
		return said
	}
	shortest := max(bounds.MinPrefixLength, int32(cidr.Bits()))
	switch {
	case length == 0:
		return "the claim gives no length"
	case length < shortest || bounds.MaxPrefixLength != 0 && length > bounds.MaxPrefixLength:
		return fmt.Sprintf("gives %s; the claim is a /%d", lengthsOf(shortest, cmp.Or(bounds.MaxPrefixLength, int32(cidr.Addr().BitLen()))), length)
	case status.LargestFreePrefix == nil:
		return coolingToo("is full", pool)
	case *status.LargestFreePrefix > length:
		return coolingToo(fmt.Sprintf("has no free /%d", length), pool)
	case q.claim.Spec.Address != "":
		return q.claim.Spec.Address + " is taken, or the claim is about to be served"
	default:
		return fmt.Sprintf("has room for a /%d: older claims come first, or it is about to be served", length)
	}
}

// coolingToo adds to a verdict that some of the pool is about to be free.
func coolingToo(verdict string, pool *ipamv1alpha1.IPPool) string {
	if space.Cooling(pool.Status.Capacity).Sign() == 0 {
		return verdict
	}
	return verdict + "; " + space.CoolsUntil(pool)
}

// withheld says why a pool can never give the address that the claim asks for; empty if it could.
func (q question) withheld(pool *ipamv1alpha1.IPPool, cidr netip.Prefix) string {
	exact, err := parseBlock(q.claim.Spec.Address)
	if err != nil {
		return ""
	}
	if !cidr.Contains(exact.Addr()) || exact.Bits() < cidr.Bits() {
		return "does not contain " + q.claim.Spec.Address
	}
	if at, ok := space.FirstOverlap(space.Excluded(pool.Spec), exact); ok {
		return fmt.Sprintf("excludes %s", at)
	}
	for _, w := range pool.Spec.Withheld(cidr) {
		if exact.Contains(w.Address) {
			return fmt.Sprintf("withholds %s, its %s", w.Address, w.As)
		}
	}
	if at, ok := space.FirstOverlap(space.Edges(cidr, pool.Spec), exact); ok {
		return fmt.Sprintf("reserves %s", at)
	}
	return ""
}

// family is the one that the claim asks for, or its class gives; empty for any.
func (q question) family() ipamv1alpha1.IPFamily {
	if q.claim.Spec.IPFamily == "" && q.class != nil {
		return q.class.Spec.IPFamily
	}
	return q.claim.Spec.IPFamily
}

// length is that of the block that the claim would get from a pool; 0 without one.
func (q question) length(pool *ipamv1alpha1.IPPool) int32 {
	if exact, err := parseBlock(q.claim.Spec.Address); err == nil {
		return int32(exact.Bits())
	}
	if q.claim.Spec.PrefixLength != 0 {
		return q.claim.Spec.PrefixLength
	}
	if q.class == nil {
		bounds := pool.Spec.Allocation
		if bounds.MinPrefixLength == bounds.MaxPrefixLength {
			return bounds.MinPrefixLength
		}
		return 0
	}
	if lengths := q.class.Spec.AllowedPrefixLengths; q.class.Spec.DefaultPrefixLength == 0 && lengths != nil && lengths.Min == lengths.Max {
		return lengths.Min
	}
	return q.class.Spec.DefaultPrefixLength
}

// largest is the length of the largest block that the pools could give; 0 when there
// is none, or when room is not what the claim lacks.
func (q question) largest() int32 {
	if reasonOf(q.claim.Status.Conditions) != string(ipamv1alpha1.ReasonPoolExhausted) {
		return 0
	}
	var best int32
	for i := range q.pools {
		p := &q.pools[i]
		free := p.Status.LargestFreePrefix
		if free == nil || q.family() != "" && p.Status.IPFamily != q.family() || *free <= q.length(p) {
			continue
		}
		if best == 0 || *free < best {
			best = *free
		}
	}
	return best
}
