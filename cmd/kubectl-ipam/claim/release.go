package claim

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// removal is kubectl ipam claim release.
type removal struct {
	*session.Session
	retained, missing bool
}

func newRelease(s *session.Session) *cobra.Command {
	o := &removal{Session: s}
	cmd := &cobra.Command{
		Use:     "release NAME...",
		Aliases: []string{"delete", "rm"},
		Short:   "Delete claims, which frees their blocks",
		Long: `Delete claims, which frees their blocks. The block of a claim with the reclaim policy
Retain stays allocated, until claim release --retained frees it.`,
		Example: `  # free a block that was retained from a deleted claim
  kubectl ipam claim release db --retained`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().BoolVar(&o.retained, "retained", false, "Free the blocks that are retained from deleted claims of these names")
	cmd.Flags().BoolVar(&o.missing, "ignore-not-found", false, "Treat a claim that does not exist as released")
	session.CompleteArgs(s, cmd, session.ClaimNames)
	return cmd
}

func (o *removal) run(ctx context.Context, names []string) error {
	here, err := o.Here()
	if err != nil {
		return err
	}
	release := o.claim
	if o.retained {
		release = o.record
	}
	var errs []error
	for _, name := range names {
		err := release(ctx, here, here.Key(name))
		if o.missing && apierrors.IsNotFound(err) && !absent.Resource(err) {
			err = nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// claim deletes one claim.
func (o *removal) claim(ctx context.Context, c client.WithWatch, key client.ObjectKey) error {
	held, ok, err := ipamclient.Release(ctx, c, key)
	switch {
	case err != nil:
		return err
	case !ok:
		return exit.Missing("ipclaims", key.Name)
	case !held.Prefix.IsValid():
		o.Say("claim %s is released; it held nothing", key)
		return nil
	}
	o.Say("claim %s is released: %s", key, held.Prefix)
	return o.kept(ctx, c, key, held.ReclaimPolicy)
}

// kept tells of a block that stays taken. The policy is what is known before the record is
// written.
func (o *removal) kept(ctx context.Context, c client.Client, key client.ObjectKey, policy ipamv1alpha1.ReclaimPolicy) error {
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

// record deletes the allocation that has outlived a claim. The server refuses to delete one whose claim is there, and
// waits for a claim that was deleted a moment ago, whose allocation then goes by itself.
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

// recordOf reads the allocation of a claim name. One of a usual name that belongs to
// another claim has the long one.
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
	return nil, cmp.Or(missing, error(apierrors.NewNotFound(ipamv1alpha1.GroupVersion.WithResource("ipallocations").GroupResource(), claim.Name)))
}
