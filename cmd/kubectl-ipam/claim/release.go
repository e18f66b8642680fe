package claim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/cascade"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// removal is kubectl ipam claim release.
type removal struct {
	*session.Session
	retained, missing, cascade bool
	// wait is how long to try to delete a range: since the last allocation that went or, if whole is set, in all.
	wait  time.Duration
	whole bool
}

func newRelease(s *session.Session) *cobra.Command {
	o := &removal{Session: s, wait: 30 * time.Second}
	cmd := &cobra.Command{
		Use:     "release NAME...",
		Aliases: []string{"delete", "rm"},
		Short:   "Delete claims, which frees their blocks",
		Long: `Delete claims, which frees their blocks. The block of a claim with the reclaim policy
Retain stays allocated, until claim release --retained frees it.

A claim that holds a range is released when nothing is left inside. Of several claims, those
inside are released first, in whatever order you name them. With --cascade, all claims and
retained blocks of this workspace inside the range are released first, in all namespaces
that you may read.

Many claims are released side by side. After a failure or an interruption, the command says
how many are released, and which are left: run it again, and it goes on with those.`,
		Example: `  # free a block that was retained from a deleted claim
  kubectl ipam claim release db --retained

  # release a network and everything inside
  kubectl ipam claim release vpc-1 --cascade`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.whole = cmd.Flags().Changed("wait")
			return o.run(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVar(&o.retained, "retained", false,
		"Free the blocks that are retained from deleted claims of these names")
	cmd.Flags().BoolVar(&o.missing, "ignore-not-found", false, "Treat a claim that does not exist as released")
	cmd.Flags().BoolVar(&o.cascade, "cascade", false,
		"Release everything inside a range first, as far as it is of this workspace")
	cmd.Flags().Var(field.Duration(&o.wait, time.Millisecond), "wait",
		"With --cascade, how long to wait for each range until it is empty, once everything inside is released; "+
			"without the flag, for so long as blocks are freed, and 30s more")
	cmd.MarkFlagsMutuallyExclusive("cascade", "retained")
	session.CompleteArgs(s, cmd, session.ClaimNames)
	return cmd
}

func (o *removal) run(ctx context.Context, names []string) error {
	here, err := o.Here()
	if err != nil {
		return err
	}
	return o.release(ctx, here, here.Namespace, slices.Compact(slices.Sorted(slices.Values(names))))
}

// release releases the claims of these names in a namespace or, with --retained, the blocks that are retained from
// them.
func (o *removal) release(ctx context.Context, c client.WithWatch, namespace string, names []string) error {
	run := cascade.Run{Session: o.Session, Again: "run it again"}
	if !o.missing && len(names) > 1 {
		run.Again = "run it again with --ignore-not-found"
	}
	named := make([]*ipamv1alpha1.IPClaim, len(names))
	level := make([]client.Object, 0, len(names))
	for i, name := range names {
		named[i] = &ipamv1alpha1.IPClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		level = append(level, named[i])
	}
	if o.retained {
		return run.Do(ctx, [][]client.Object{level}, func(ctx context.Context, object client.Object) error {
			return o.there(o.record(ctx, c, client.ObjectKeyFromObject(object)))
		})
	}
	levels, err := o.ordered(ctx, c, named)
	if err != nil {
		return err
	}
	if o.cascade {
		run.Most = len(named) // if claims inside fail, they all fail for the same reason
	}
	return run.Do(ctx, levels, func(ctx context.Context, object client.Object) error {
		claim, ok := object.(*ipamv1alpha1.IPClaim)
		switch {
		case !ok:
			return cascade.Deletion{WithWatch: c, Patience: o.wait, Whole: o.whole}.Do(ctx, object)
		case slices.Contains(named, claim):
			return o.there(o.claim(ctx, c, claim))
		}
		return o.delete(ctx, c, claim)
	})
}

// there ignores the error for an object that is missing, with --ignore-not-found.
func (o *removal) there(err error) error {
	if o.missing && apierrors.IsNotFound(err) && !absent.Resource(err) {
		return nil
	}
	return err
}

// ordered reads the named claims, and returns everything to release, in levels. A claim that cannot be read is in the
// first level: its release will return the error.
func (o *removal) ordered(
	ctx context.Context, c client.Client, named []*ipamv1alpha1.IPClaim,
) ([][]client.Object, error) {
	group := errgroup.Group{}
	group.SetLimit(readAtOnce)
	for _, claim := range named {
		group.Go(func() error {
			key := client.ObjectKeyFromObject(claim)
			err := c.Get(ctx, key, claim)
			if err != nil {
				claim.Namespace, claim.Name, claim.UID = key.Namespace, key.Name, ""
			}
			return exit.IgnoreUnseen(err)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := slices.Clone(named)
	ranges := slices.DeleteFunc(slices.Clone(named), func(claim *ipamv1alpha1.IPClaim) bool { return !isRange(claim) })
	var kept []client.Object
	if o.cascade && len(ranges) > 0 {
		inside, err := cascade.OfRanges(ctx, c, named[0].Namespace, ranges)
		if err != nil {
			return nil, err
		}
		for _, claim := range inside.Claims {
			if !slices.ContainsFunc(named, func(n *ipamv1alpha1.IPClaim) bool { return n.UID == claim.UID }) {
				all = append(all, claim)
			}
		}
		for _, record := range inside.Retained {
			kept = append(kept, record)
		}
	}
	levels := cascade.Levels(all)
	if len(kept) > 0 { // they come after the blocks, because some are retained from these
		at := slices.IndexFunc(levels, func(level []client.Object) bool { return isRange(level[0].(*ipamv1alpha1.IPClaim)) })
		levels = slices.Insert(levels, at, kept)
	}
	return levels, nil
}

// readAtOnce is how many claims are read at the same time.
const readAtOnce = 16

func isRange(claim *ipamv1alpha1.IPClaim) bool {
	return claim.Spec.Target == ipamv1alpha1.TargetScopeRange
}

// claim releases a claim that the user has named, and prints its block.
func (o *removal) claim(ctx context.Context, c client.WithWatch, claim *ipamv1alpha1.IPClaim) error {
	key := client.ObjectKeyFromObject(claim)
	if claim.UID == "" {
		return cmp.Or(c.Get(ctx, key, claim), exit.Missing("ipclaims", key.Name))
	}
	held, _, err := ipamclient.AllocationOf(claim)
	if err == nil {
		err = o.delete(ctx, c, claim)
	}
	switch {
	case apierrors.IsNotFound(err) && !absent.Resource(err):
		return exit.Missing("ipclaims", key.Name)
	case err != nil:
		return err
	case !held.Prefix.IsValid():
		o.Say("claim %s is released; it held nothing", key)
		return nil
	}
	o.Say("claim %s is released: %s", key, held.Prefix)
	return o.kept(ctx, c, key, held.ReclaimPolicy)
}

// delete deletes a claim. With --cascade it tries again while the server refuses to delete a range: the claims inside
// were released a moment before.
func (o *removal) delete(ctx context.Context, c client.WithWatch, claim *ipamv1alpha1.IPClaim) error {
	if o.cascade {
		return cascade.Deletion{WithWatch: c, Patience: o.wait, Whole: o.whole, Tell: o.Waits()}.Do(ctx, claim)
	}
	uid := claim.UID
	return c.Delete(ctx, claim, client.Preconditions{UID: &uid})
}

// kept says so if the block of a released claim is retained. policy counts if the record cannot be read.
func (o *removal) kept(
	ctx context.Context, c client.Client, key client.ObjectKey, policy ipamv1alpha1.ReclaimPolicy,
) error {
	record, err := recordOf(ctx, c, key)
	if err == nil {
		policy = record.Spec.ReclaimPolicy
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		err = nil
	}
	if err == nil && policy == ipamv1alpha1.ReclaimRetain {
		o.Say("its block is retained; kubectl ipam claim release %s --retained gives it back", facts.ArgsFor(key))
	}
	return err
}

// record deletes the allocation that is retained from a claim. The server refuses that if the claim exists. If the
// claim was deleted a moment ago, the server waits until it is gone, and its allocation may go with it.
func (o *removal) record(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
	record, err := recordOf(ctx, c, key)
	if err != nil {
		return err
	}
	err = c.Delete(ctx, record, client.Preconditions{UID: &record.UID})
	if apierrors.IsInvalid(err) {
		return exit.Fail(exit.Conflict, fmt.Sprintf("kubectl ipam claim release %s gives it back", facts.ArgsFor(key)),
			"the block %s is held by the claim %s", record.Status.AllocatedCIDR, key)
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	o.Say("the block retained for %s is released: %s", key, record.Status.AllocatedCIDR)
	return nil
}

// recordOf reads the allocation that was made for a claim of this name. If another claim's allocation has the usual
// name, this one has the long name.
func recordOf(ctx context.Context, c client.Client, claim client.ObjectKey) (*ipamv1alpha1.IPAllocation, error) {
	var missing error
	for _, name := range ipamv1alpha1.AllocationNames(claim.Namespace, claim.Name) {
		record := &ipamv1alpha1.IPAllocation{}
		err := c.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: name}, record)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if holder, _ := record.HeldBy(); err == nil && holder == claim.Name {
			return record, nil
		}
		missing = cmp.Or(missing, err)
	}
	records := ipamv1alpha1.GroupVersion.WithResource("ipallocations").GroupResource()
	return nil, cmp.Or(missing, error(apierrors.NewNotFound(records, claim.Name)))
}
