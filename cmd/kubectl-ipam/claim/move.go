package claim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// move is kubectl ipam claim move.
type move struct {
	*session.Session
	output            output.Printer
	toNamespace, name string
	wait              time.Duration
}

func newMove(s *session.Session) *cobra.Command {
	o := &move{Session: s, wait: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "move NAME",
		Short: "Move the block of a claim to another namespace or name",
		Long: `Move the block of a claim to another namespace or name of the workspace, and print its CIDR.

The command creates a claim there that asks for exactly this block, waits until that is in
line for it, and releases the old claim. The new claim then comes before the older claims of
this workspace that wait. Claims of other workspaces that wait for the same pool take their
turns: where a shared pool is full, one of them may get the block.

The new claim has the spec, labels and annotations of the old one, with the block as its
address. If the class or the pool has a cooldown, the new claim is bound when that is over.

An interrupted move can be resumed: run it again, and it goes on where it ended.`,
		Example: `  # move the address of "web" to the namespace "shop"
  kubectl ipam claim move web --to-namespace shop

  # rename a claim, and keep its address
  kubectl ipam claim move web --to-name frontend`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.output.AddFlags(cmd)
	cmd.Flags().StringVar(&o.toNamespace, "to-namespace", "", "Namespace of the new claim; empty is that of the old one")
	cmd.Flags().StringVar(&o.name, "to-name", "", "Name of the new claim; empty is that of the old one")
	cmd.Flags().Var(field.Duration(&o.wait, time.Millisecond), "wait", "How long to wait for the controller at each step")
	cmd.MarkFlagsOneRequired("to-namespace", "to-name")
	session.CompleteArgs(s, cmd, session.ClaimNames)
	session.CompleteNames(s, cmd, "to-namespace", session.NamespaceNames)
	return cmd
}

func (o *move) run(ctx context.Context, name string) error {
	here, err := o.Here()
	if err != nil {
		return err
	}
	from := here.Key(name)
	to := client.ObjectKey{Namespace: cmp.Or(o.toNamespace, from.Namespace), Name: cmp.Or(o.name, from.Name)}
	if from == to {
		return exit.Usagef("claim %s is there already; give another --to-namespace or --to-name", from)
	}
	target, err := o.move(ctx, here, from, to)
	if err != nil {
		return err
	}
	o.Say("claim %s is moved to %s", from, to)
	if o.output.Given() {
		return o.output.Print(o.Out, target, o.Now)
	}
	screen.Line(o.Out, "%s", target.Status.AllocatedCIDR)
	return nil
}

// move moves the block of a claim, and returns the new claim. It goes on where an earlier run has ended.
func (o *move) move(ctx context.Context, c client.WithWatch, from, to client.ObjectKey) (*ipamv1alpha1.IPClaim, error) {
	source, target := &ipamv1alpha1.IPClaim{}, &ipamv1alpha1.IPClaim{}
	noSource, noTarget := c.Get(ctx, from, source), c.Get(ctx, to, target)
	if err := cmp.Or(client.IgnoreNotFound(noSource), client.IgnoreNotFound(noTarget)); err != nil {
		return nil, err
	}
	begun := noTarget == nil && target.Annotations[ipamv1alpha1.AnnotationMovedFrom] == from.String()
	if gone := noSource != nil || !source.DeletionTimestamp.IsZero(); gone && begun {
		return target, o.finish(ctx, c, target)
	}
	if noSource != nil {
		return nil, noSource
	}
	if err := movable(source); err != nil {
		return nil, err
	}
	if noTarget != nil {
		target = successor(source, to)
		if err := exit.Unmet(target, c.Create(ctx, target)); err != nil {
			return nil, err
		}
	} else if err := continues(source, target); err != nil {
		return nil, err
	}
	if err := o.queue(ctx, c, source, target); err != nil {
		return nil, resumable(err, "claim %s holds %s still", from, source.Status.AllocatedCIDR)
	}
	if err := release(ctx, c, source); err != nil {
		return nil, resumable(err, "claim %s may hold %s still", from, source.Status.AllocatedCIDR)
	}
	return target, o.finish(ctx, c, target)
}

// movable refuses a claim that holds a range, is being deleted, or has no block.
func movable(source *ipamv1alpha1.IPClaim) error {
	switch {
	case isRange(source):
		return exit.Fail(exit.Invalid, "claims in any namespace can have blocks inside the range",
			"claim %s holds the range of its class and scope, which cannot be moved", facts.Name(source))
	case !source.DeletionTimestamp.IsZero():
		return fmt.Errorf("claim %s: %w", facts.Name(source), ipamclient.ErrTerminating)
	}
	return facts.AnswerOf(source).Err(source)
}

// continues refuses a claim that exists at the destination, and does not wait for the block of the source.
func continues(source, target *ipamv1alpha1.IPClaim) error {
	if target.Status.AllocatedCIDR == "" && target.DeletionTimestamp.IsZero() &&
		sameBlock(target.Spec.Address, source.Status.AllocatedCIDR) {
		return nil
	}
	return exit.Fail(exit.Conflict,
		"choose another name, or release that claim: kubectl ipam claim release "+facts.Args(target),
		"there is a claim %s already, which does not wait for %s", facts.Name(target), source.Status.AllocatedCIDR)
}

func sameBlock(address, cidr string) bool {
	block, err := facts.ParseBlock(address)
	held, err2 := netip.ParsePrefix(cidr)
	return err == nil && err2 == nil && block == held
}

// successor returns the claim that takes over the block. It waits, whatever its class says, because the source still
// holds the block.
func successor(source *ipamv1alpha1.IPClaim, to client.ObjectKey) *ipamv1alpha1.IPClaim {
	target := &ipamv1alpha1.IPClaim{Spec: *source.Spec.DeepCopy()}
	target.Namespace, target.Name, target.Labels = to.Namespace, to.Name, maps.Clone(source.Labels)
	target.Annotations = map[string]string{}
	for key, value := range source.Annotations {
		if key != corev1.LastAppliedConfigAnnotation && !strings.Contains(key, "kcp.io/") {
			target.Annotations[key] = value
		}
	}
	target.Annotations[ipamv1alpha1.AnnotationMovedFrom] = facts.Name(source)
	spec := &target.Spec
	spec.Address, spec.PrefixLength, spec.Number = cmp.Or(source.Status.Address, source.Status.AllocatedCIDR), 0, nil
	spec.UnmetPolicy, spec.ReclaimPolicy = ipamv1alpha1.UnmetWait, otherPolicy(source.Spec.ReclaimPolicy)
	if spec.ClassName == "" && spec.PoolRef == nil && spec.PoolSelector == nil {
		spec.ClassName = source.Status.ClassName // another class may be the default now
	}
	return target
}

// otherPolicy returns a reclaim policy that is not the given one.
func otherPolicy(policy ipamv1alpha1.ReclaimPolicy) ipamv1alpha1.ReclaimPolicy {
	if policy == ipamv1alpha1.ReclaimRetain {
		return ""
	}
	return ipamv1alpha1.ReclaimRetain
}

// queue waits until the target is in line for the block. The answer to the target's CREATE does not show that. So queue
// changes the target's reclaim policy to that of the source. Once the controller has answered this generation of the
// target, the target is in line. If an earlier run has changed the target, queue changes nothing: release may have
// changed the policy of the source since.
func (o *move) queue(ctx context.Context, c client.WithWatch, source, target *ipamv1alpha1.IPClaim) error {
	for target.Generation < 2 {
		policy := source.Spec.ReclaimPolicy
		if target.Spec.ReclaimPolicy == policy { // a user has created the target
			policy = otherPolicy(policy)
		}
		if err := setPolicy(ctx, c, target, policy); err != nil {
			return err
		}
	}
	answered := func() bool { return target.Status.ObservedGeneration >= target.Generation }
	if err := o.until(ctx, c, target, "until claim "+facts.Name(target)+" is in line", answered); err != nil {
		return err
	}
	switch now := facts.AnswerOf(target); ipamv1alpha1.Reason(facts.Reason(target.Status.Conditions)) {
	case ipamv1alpha1.ReasonAddressInUse, ipamv1alpha1.ReasonQuotaExceeded: // it waits for the source to be released
		return nil
	default:
		has := exit.Fail(exit.Conflict, "", "claim %s has %s already", facts.Name(target), target.Status.AllocatedCIDR)
		return cmp.Or(now.Err(target), has)
	}
}

// setPolicy changes the reclaim policy of this claim. It fails for a later claim of the same name.
func setPolicy(
	ctx context.Context, c client.Client, claim *ipamv1alpha1.IPClaim, policy ipamv1alpha1.ReclaimPolicy,
) error {
	var value any // null removes the field
	if policy != "" {
		value = policy
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": claim.UID}, "spec": map[string]any{"reclaimPolicy": value},
	})
	if err != nil {
		return err
	}
	return c.Patch(ctx, claim, client.RawPatch(types.MergePatchType, patch))
}

// release releases the source without retaining its block.
func release(ctx context.Context, c client.Client, source *ipamv1alpha1.IPClaim) error {
	if source.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimDelete {
		if err := setPolicy(ctx, c, source, ipamv1alpha1.ReclaimDelete); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return client.IgnoreNotFound(c.Delete(ctx, source, client.Preconditions{UID: &source.UID}))
}

// finish waits until the new claim has the block.
func (o *move) finish(ctx context.Context, c client.WithWatch, target *ipamv1alpha1.IPClaim) error {
	err := o.until(ctx, c, target, "until claim "+facts.Name(target)+" has its block", func() bool {
		return facts.AnswerOf(target).Given()
	})
	if err == nil {
		return nil
	}
	return resumable(err, "claim %s waits for %s", facts.Name(target), target.Spec.Address)
}

// until waits until done returns true for a claim.
func (o *move) until(
	ctx context.Context, c client.WithWatch, claim *ipamv1alpha1.IPClaim, what string, done func() bool,
) error {
	o.Waits()("waiting " + what)
	limited, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	err := ipamclient.Until(limited, c, claim, done)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		now := facts.AnswerOf(claim)
		return &exit.Failure{
			Code: exit.Unavailable, Reason: ipamv1alpha1.Reason(facts.Reason(claim.Status.Conditions)),
			Err: fmt.Errorf("waited %s %s: %s", o.wait, what, now.Reason()),
		}
	}
	return err
}

// resumable returns the error of a move that has ended early. It says how far the move came, and how to go on.
func resumable(err error, format string, args ...any) error {
	words := exit.Explain(err)
	if apierrors.IsNotFound(err) || errors.Is(err, ipamclient.ErrGone) {
		words = "the new claim is gone"
	}
	return exit.Fail(exit.CodeOf(err), exit.HintOf(err), "%s; %s: run it again, and it goes on",
		words, fmt.Sprintf(format, args...))
}
