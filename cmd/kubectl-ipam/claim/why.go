package claim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
		Long: `Explain why a claim is not bound: the answer of the controller, the pools of this workspace
that come into question, and what to do.

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
	here, err := s.Here()
	if err != nil {
		return err
	}
	claim, err := get(ctx, here, name)
	if err != nil {
		return err
	}
	now := facts.AnswerOf(claim)
	switch {
	case !claim.DeletionTimestamp.IsZero():
		return explainReleasing(s, claim)
	case now.Given():
		screen.Line(s.Out, "claim %s is bound: it holds %s", facts.Name(claim), now.Data)
		return nil
	}
	q, err := ask(ctx, here, claim)
	if err != nil {
		return err
	}
	return q.explain(s)
}

// explainReleasing says why a deleted claim is still there.
func explainReleasing(s *session.Session, claim *ipamv1alpha1.IPClaim) error {
	gets := "it gets no block"
	if block := claim.Status.AllocatedCIDR; block != "" {
		gets = "it holds " + block + " until it is gone"
	}
	screen.Line(s.Out, "claim %s is %s; %s", facts.Name(claim), facts.Held(claim, s.Now()), gets)
	return nil
}

// question is a claim that waits, with the class and the pools that may serve it.
type question struct {
	claim *ipamv1alpha1.IPClaim
	class *ipamv1alpha1.IPClass // nil: the caller sees none
	pools []*space.Pool         // of this workspace, with the holders if the claim asks for an address
	// held names holders of this workspace that have the requested address in pools that the caller cannot see.
	held []string
	kept *ipamv1alpha1.IPAllocation // retained from a former claim of the name; nil: nothing is
}

// ask reads the classes, pools and allocations that the caller may see.
func ask(ctx context.Context, c session.Access, claim *ipamv1alpha1.IPClaim) (q question, err error) {
	q.claim = claim
	if q.kept, err = retained(ctx, c, claim.Name); exit.IgnoreUnseen(err) != nil {
		return q, err
	}
	if q.class, err = session.Class(ctx, c, facts.Class(claim)); exit.IgnoreUnseen(err) != nil {
		return q, err
	}
	pools := &ipamv1alpha1.IPPoolList{}
	if err := c.List(ctx, pools); exit.IgnoreUnseen(err) != nil {
		return q, err
	}
	allocations := &ipamv1alpha1.IPAllocationList{}
	if claim.Spec.Address != "" {
		if err := c.List(ctx, allocations); exit.IgnoreUnseen(err) != nil {
			return q, err
		}
	}
	for _, pool := range (&session.View{}).Visible(pools.Items, allocations.Items) {
		switch {
		case pool.Object == nil:
			q.held = append(q.held, q.holders(pool)...)
		case q.concerns(pool.Object):
			q.pools = append(q.pools, pool)
		}
	}
	return q, nil
}

// holders names the holders of the requested address in a pool. Each is named with its scope: in a pool with an address
// space for each network, a holder for another network is not in the way.
func (q question) holders(pool *space.Pool) []string {
	exact, _ := facts.ParseBlock(q.claim.Spec.Address) // the zero Prefix overlaps no block
	var found []string
	for _, h := range pool.Held {
		if h.Block.Overlaps(exact) {
			said := fmt.Sprintf("%s of this workspace holds %s of pool %s", h.Holder, h.Block, pool.Title())
			if h.Scope != "" {
				said += " for " + h.Scope
			}
			found = append(found, said)
		}
	}
	return found
}

// concerns reports whether the claim asks for the pool, directly or by its class.
func (q question) concerns(pool *ipamv1alpha1.IPPool) bool {
	if ref := q.claim.Spec.PoolRef; ref != nil {
		return ref.ProjectRef == nil && pool.Name == ref.Name
	}
	return slices.Contains(pool.Spec.ClassNames, facts.Class(q.claim))
}

// explain prints the answer, the pools, and what to do.
func (q question) explain(s *session.Session) error {
	now, reason := facts.AnswerOf(q.claim), "there is no answer yet"
	if now.Allocated != nil {
		reason = now.Allocated.Reason
	}
	screen.Line(s.Out, "claim %s is not bound: %s", s.Paint.Bold(facts.Name(q.claim)), s.Paint.Yellow(reason))
	if now.Allocated != nil {
		for said := range strings.SplitSeq(now.Allocated.Message, "; ") {
			screen.Line(s.Out, "  %s", said)
		}
	}
	if q.class != nil {
		screen.Line(s.Out, "")
		screen.Line(s.Out, "class %s: %s, %s, ready pools on the platform: %d", q.class.Name, q.class.Spec.IPFamily,
			facts.ClassLengths(q.class), q.class.Status.OfferingPools)
		if roles := q.class.Status.RequiredScopeRoles; len(roles) > 0 {
			screen.Line(s.Out, "its claims need a scope with %s; this one has %s",
				strings.Join(roles, ", "), cmp.Or(facts.Scope(q.claim.Spec.Scope), "none"))
		}
	}
	if err := q.drawPools(s); err != nil {
		return err
	}
	for i, holder := range q.held {
		if i == 0 {
			screen.Line(s.Out, "")
		}
		screen.Line(s.Out, "%s", holder)
	}
	screen.Line(s.Out, "")
	if now.Allocated != nil {
		screen.Line(s.Out, "to do: %s", now.Remedy)
	}
	if q.kept != nil && facts.Reason(q.claim.Status.Conditions) == string(ipamv1alpha1.ReasonAllocationRetained) {
		screen.Line(s.Out, "retained: %s", keptUntil(q.kept, s.Now()))
	}
	return nil
}

// drawPools lists the pools of this workspace that the claim may be served by. The answer to the claim says why each of
// them does not serve it.
func (q question) drawPools(s *session.Session) error {
	if len(q.pools) == 0 {
		return nil
	}
	t := output.NewTable("POOL", "CIDR", "UTIL", "LARGEST FREE", "SAYS")
	for _, pool := range q.pools {
		p := pool.Object
		t.Rows = append(t.Rows, output.Row(p, p.Name, facts.CIDR(p), facts.Utilisation(p), facts.LargestFree(p),
			q.says(pool)))
	}
	screen.Line(s.Out, "")
	return output.WriteTable(s.Out, t)
}

// says returns what a pool can add to the answer: that it is not ready, who holds the requested address, which claims
// were answered and never stored, or when blocks stop cooling. Empty: nothing.
func (q question) says(pool *space.Pool) string {
	if !facts.AnswerOf(pool.Object).Given() {
		return "not ready: " + cmp.Or(facts.Reason(pool.Object.Status.Conditions), "no answer yet")
	}
	exact, _ := facts.ParseBlock(q.claim.Spec.Address) // the zero Prefix overlaps no block
	for _, h := range pool.Held {
		if h.Block.Overlaps(exact) {
			return h.Holder + " holds " + h.Block.String()
		}
	}
	return cmp.Or(facts.Unstored(pool.Object), space.CoolsUntil(pool.Object))
}
