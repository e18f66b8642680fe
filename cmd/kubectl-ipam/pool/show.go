package pool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// show is kubectl ipam pool show.
type show struct {
	*session.Session
	workspace string
}

func newShow(s *session.Session) *cobra.Command {
	o := &show{Session: s}
	cmd := output.NewShow(s, session.PoolNames, o.run)
	cmd.Short = "Show a pool: how full it is, a map of its space, and the holders of its blocks"
	cmd.Long = `Show a pool: how full it is, a map of its space, and the holders of its blocks. Only admins
of the platform see the blocks of other workspaces; other users see how many addresses
those hold. Of a pool of another workspace, you see only the blocks that you hold.`
	cmd.Example = `  # show what you hold of a pool that the workspace root:net shares
  kubectl ipam pool show edge --workspace root:net`
	cmd.Flags().StringVar(&o.workspace, "workspace", "",
		"Workspace of the pool, such as root:net; empty is the current one")
	return cmd
}

func (o *show) run(ctx context.Context, _ session.Access, name string, out *output.Printer) error {
	r, pool, err := find(ctx, o.Session, o.workspace, name)
	switch {
	case err != nil:
		return err
	case pool.Object == nil && pool.Workspace == "":
		return exit.Missing("ippools", name)
	case pool.Object == nil:
		return o.guest(pool)
	case out.Given():
		return out.Print(o.Out, pool.Object, o.Now)
	}
	return o.describe(ctx, r, pool)
}

// describe shows a pool, as soon as its figures agree with the blocks that are shown.
func (o *show) describe(ctx context.Context, r *session.View, pool *space.Pool) error {
	err := settled(ctx, r, pool, exactly)
	if err == nil {
		err = describePool(o.Session, pool)
	}
	if hint := r.Unrecorded(facts.CIDR(pool.Object)); err == nil && hint != "" && pool.OthersHold() != "" {
		o.Say("%s", hint)
	}
	return err
}

// guest shows the blocks that the caller holds in a pool which the caller may not read.
func (o *show) guest(pool *space.Pool) error {
	if len(pool.Held) == 0 {
		return exit.Fail(exit.NotFound, "a pool is shown to its own workspace, and to admins of the platform",
			"you hold nothing of a pool %s", pool.Title())
	}
	page := o.Page()
	page.Line("Pool", pool.Title())
	screen.Line(o.Out, "")
	if err := listHoldings(o.Session, pool); err != nil {
		return err
	}
	screen.Line(o.Out, "")
	screen.Line(o.Out, "what others hold of it is not shown to you")
	return nil
}

func describePool(s *session.Session, p *space.Pool) error {
	page, pool := s.Page(), p.Object
	describeRules(page, pool, s.Now())
	shown, status := p.Space(), pool.Status
	if status.Capacity == nil || !shown.Pool.IsValid() {
		return nil // the pool has no block yet
	}
	if status.Spaces > 0 {
		page.Line("Spaces", fmt.Sprintf("%d, and the figures are those of the fullest", status.Spaces))
	}
	page.Line("Addresses", fmt.Sprintf("%s in all, %s taken, %s free",
		status.Capacity.Total, status.Capacity.Allocated, status.Capacity.Available))
	page.Line("Unused", unused(pool))
	page.Line("Cooling", space.CoolsUntil(pool))
	page.Line("Largest free", facts.LargestFree(pool))
	page.Painted("Taken", bar(s.Paint, pool))
	page.Line("Forecast", space.OutlookOf(pool, s.Now()).String())

	screen.Line(s.Out, "")
	drawMap(s.Out, p)
	if len(p.Held) > 0 {
		screen.Line(s.Out, "")
		if err := listHoldings(s, p); err != nil {
			return err
		}
	}
	if others := p.OthersHold(); others != "" {
		screen.Line(s.Out, "")
		screen.Line(s.Out, "%s; figures may be half a second old", others)
		if used := meta.FindStatusCondition(status.Conditions, ipamv1alpha1.ConditionInUse); used != nil {
			screen.Line(s.Out, "the controller says: %s", used.Message)
		}
	}
	return nil
}

// describeRules shows the spec of a pool, and the answer to it.
func describeRules(page *screen.Sheet, pool *ipamv1alpha1.IPPool, now time.Time) {
	spec, status := pool.Spec, pool.Status
	page.Line("Pool", pool.Name)
	page.Painted("Phase", page.Phase(string(status.Phase)))
	page.Words("", "%s", facts.Held(pool, now))
	page.Line("CIDR", facts.CIDR(pool))
	page.Line("Parent", facts.Parent(pool))
	page.Line("Scope", facts.Scope(spec.Scope))
	page.Line("Made by", madeBy(spec))
	page.Line("Domain", spec.AddressDomain)
	page.Line("Classes", strings.Join(spec.ClassNames, ", "))
	page.Line("Visibility", visible(spec))
	page.Line("Lengths", facts.Lengths(spec.Allocation.MinPrefixLength, spec.Allocation.MaxPrefixLength))
	page.Line("Gateway", gatewayOf(spec))
	page.Line("Lease", string(spec.MaxRetentionLease))
	page.Line("Limit", facts.Limit(spec.MaxPerConsumer))
	page.Line("Cooldown", string(spec.ReleaseCooldown))
	page.Line("Description", pool.Annotations[ipamv1alpha1.AnnotationDescription])
	for _, note := range plan.NotesOf(pool) {
		words := []string{string(note.CIDR), note.Name, note.Description}
		words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
		page.Line("Excluded", strings.Join(words, ", "))
	}
	page.Line("Age", facts.Age(pool.CreationTimestamp, now))
	facts.Describe(page, facts.AnswerOf(pool))
	for _, warning := range facts.Warnings(pool) {
		page.Line("Warning", warning)
	}
}

// unused says for a pool that nobody uses until when idle pools have addresses of it, and when the pool itself goes;
// empty: there is nothing to say.
func unused(pool *ipamv1alpha1.IPPool) string {
	used := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionInUse)
	if used == nil || used.Status != metav1.ConditionFalse ||
		pool.Spec.ClassRef == nil && pool.Status.Capacity.Allocated == "0" {
		return ""
	}
	return used.Message
}

func listHoldings(s *session.Session, p *space.Pool) error {
	t := output.NewTable("BLOCK", "SCOPE", "HOLDER", "CLASS", "AGE", "EXCLUDED")
	for _, h := range p.Held {
		excluded := ""
		if at, ok := p.StaysIn(h.Block); ok {
			excluded = at.String()
		}
		t.Rows = append(t.Rows, output.Row(nil, h.Block.String(), h.Scope, h.Holder, h.Class,
			facts.Age(h.Since, s.Now()), excluded))
	}
	output.HideEmpty(t, "SCOPE")
	output.HideEmpty(t, "EXCLUDED")
	return output.WriteTable(s.Out, t)
}

// madeBy names the class with which the system has made a pool; empty for a pool that a user has written.
func madeBy(spec ipamv1alpha1.IPPoolSpec) string {
	if spec.ClassRef == nil {
		return ""
	}
	return "class " + spec.ClassRef.Name
}

// gatewayOf returns the gateway of a pool, and the length of its network, as far as the spec has them.
func gatewayOf(spec ipamv1alpha1.IPPoolSpec) string {
	if spec.NetworkPrefixLength == 0 {
		return spec.Gateway
	}
	return fmt.Sprintf("%s, network of a /%d", cmp.Or(spec.Gateway, "none"), spec.NetworkPrefixLength)
}

// visible says which workspaces can use a pool.
func visible(spec ipamv1alpha1.IPPoolSpec) string {
	if len(spec.Consumers) == 0 {
		return string(spec.Visibility)
	}
	return fmt.Sprintf("%s, for %s", spec.Visibility, strings.ReplaceAll(field.List(&spec.Consumers).String(), ",", ", "))
}
