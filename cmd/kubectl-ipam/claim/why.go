package claim

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

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// NewWhy makes kubectl ipam why.
func NewWhy(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why CLAIM",
		Short: "Explain why a claim is not bound, and what would help",
		Long: `Explain why a claim is not bound: the reason, the pools of this workspace that could serve
the claim, and what keeps each of them from it.

The exit code is 0 whenever the command has an answer. claim create ends with the code of
the reason.`,
		Example: `  kubectl ipam why app`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return why(cmd.Context(), s, args[0]) },
	}
	session.CompleteArgs(s, cmd, session.ClaimNames)
	return cmd
}

func why(ctx context.Context, s *session.Session, name string) error {
	claim, err := get(ctx, s, name)
	if err != nil {
		return err
	}
	if now := facts.AnswerOf(claim); now.Given() {
		screen.Line(s.Out, "claim %s is bound: it holds %s", facts.Name(claim), now.Data)
		return nil
	}
	q, err := ask(ctx, s, claim)
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
	taken taken
}

// ask reads what the caller may see of classes and pools.
func ask(ctx context.Context, s *session.Session, claim *ipamv1alpha1.IPClaim) (question, error) {
	q := question{claim: claim}
	c, err := s.Client()
	if err != nil {
		return q, err
	}
	if q.kept, err = retained(ctx, s, claim.Name); exit.IgnoreUnseen(err) != nil {
		return q, err
	}
	classes := &ipamv1alpha1.IPClassList{}
	if err := c.List(ctx, classes); exit.IgnoreUnseen(err) != nil {
		return q, err
	}
	for i := range classes.Items {
		if classes.Items[i].Name == facts.Class(claim) {
			q.class = &classes.Items[i]
		}
	}
	pools := &ipamv1alpha1.IPPoolList{}
	if err := c.List(ctx, pools); exit.IgnoreUnseen(err) != nil {
		return q, err
	}
	if q.taken, err = takenOf(ctx, c, claim, pools.Items); err != nil {
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
		return slices.Contains(pool.Spec.ClassNames, facts.Class(q.claim))
	}
}

// explain writes the answer, the pools and what to do.
func (q question) explain(s *session.Session) error {
	now := facts.AnswerOf(q.claim)
	screen.Line(s.Out, "claim %s is not bound: %s", s.Paint.Bold(facts.Name(q.claim)), s.Paint.Yellow(reasonOrNone(now)))
	if now.Allocated != nil {
		for said := range strings.SplitSeq(now.Allocated.Message, "; ") {
			screen.Line(s.Out, "  %s", said)
		}
	}
	if q.class != nil {
		screen.Line(s.Out, "")
		screen.Line(s.Out, "class %s: %s, %s, ready pools on the platform: %d", q.class.Name, q.class.Spec.IPFamily,
			facts.ClassLengths(q.class), q.class.Status.OfferingPools)
	}
	if err := q.drawPools(s); err != nil {
		return err
	}
	screen.Line(s.Out, "")
	if now.Allocated != nil {
		screen.Line(s.Out, "to do: %s", ipamv1alpha1.Reason(now.Allocated.Reason).Remedy())
		q.waysOut(s)
	}
	if best := q.largest(); best != 0 {
		screen.Line(s.Out, "the largest block that these pools could give is a /%d", best)
	}
	return nil
}

func reasonOrNone(a facts.Answer) string {
	if a.Allocated == nil {
		return "there is no answer yet"
	}
	return a.Allocated.Reason
}

// drawPools lists the pools of this workspace with what keeps each from serving the claim.
func (q question) drawPools(s *session.Session) error {
	if len(q.pools) == 0 {
		if said := q.noPools(); said != "" {
			screen.Line(s.Out, "")
			screen.Line(s.Out, "%s", said)
		}
		return nil
	}
	t := output.NewTable("POOL", "CIDR", "UTIL", "LARGEST FREE", "VERDICT")
	for i := range q.pools {
		p := &q.pools[i]
		t.Rows = append(t.Rows, output.Row(p, p.Name, facts.CIDR(p), facts.Utilisation(p), facts.LargestFree(p), q.verdict(p)))
	}
	screen.Line(s.Out, "")
	return output.WriteTable(s.Out, t)
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
	cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil || !facts.AnswerOf(pool).Given() {
		return "not ready: " + cmp.Or(facts.Reason(pool.Status.Conditions), "no answer yet")
	}
	if family := q.family(); family != "" && family != pool.Status.IPFamily {
		return fmt.Sprintf("is %s; the claim is %s", pool.Status.IPFamily, family)
	}
	return cmp.Or(q.withheld(pool, cidr), q.room(pool, cidr))
}

// room says whether a pool gives blocks of the length that the claim asks for, and has one.
func (q question) room(pool *ipamv1alpha1.IPPool, cidr netip.Prefix) string {
	length, free, bounds := q.length(pool), pool.Status.LargestFreePrefix, pool.Spec.Allocation
	least, most := max(bounds.MinPrefixLength, int32(cidr.Bits())), cmp.Or(bounds.MaxPrefixLength, int32(cidr.Addr().BitLen()))
	said := fmt.Sprintf("has room for a /%d: older claims come first, or it is about to be served", length)
	switch {
	case length == 0:
		said = "the claim gives no length"
	case length < least || length > most:
		said = fmt.Sprintf("gives %s; the claim is a /%d", facts.Lengths(least, most), length)
	case free == nil:
		said = coolingToo("is full", pool)
	case *free > length:
		said = coolingToo(fmt.Sprintf("has no free /%d", length), pool)
	case q.claim.Spec.Address != "":
		said = cmp.Or(q.taken.in(pool), q.claim.Spec.Address+" is taken, or the claim is about to be served")
	}
	return said
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
	exact, err := facts.ParseBlock(q.claim.Spec.Address)
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
	if exact, err := facts.ParseBlock(q.claim.Spec.Address); err == nil {
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
	if facts.Reason(q.claim.Status.Conditions) != string(ipamv1alpha1.ReasonPoolExhausted) {
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
