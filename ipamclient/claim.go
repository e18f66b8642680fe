package ipamclient

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Claim creates a claim, or finds the one of its name, and waits until it has its block. Claim reads name, namespace,
// labels and spec of its argument, and leaves the argument as the claim was last seen on the server.
//
// Claim waits until the context ends. It waits no longer if the claim is stalled or is being deleted, because waiting
// does not change that. A stored claim stays after such an end, and binds by itself when the cause is gone: call
// Claim again, or [Release]. With unmetPolicy Refuse such a claim is not created.
//
// Errors are an [UnmetError], a [ConflictError], [ErrTerminating], [ErrGone], or a fault, after which the caller
// repeats the call. A claim with generateName is a new one at each call.
func Claim(
	ctx context.Context, c client.WithWatch, claim *ipamv1alpha1.IPClaim, options ...client.CreateOption,
) (Allocation, error) {
	if err := find(ctx, c, claim, options); err != nil {
		return Allocation{}, err
	}
	return Wait(ctx, c, claim, nil)
}

// Ensure is [Claim] without the wait: it returns what the server answers now. A claim that waits
// is an [UnmetError] with its reason; without a reason, there is no answer yet. With the option
// [client.DryRunAll] it is a preview, which stores and takes nothing.
func Ensure(
	ctx context.Context, c client.WithWatch, claim *ipamv1alpha1.IPClaim, options ...client.CreateOption,
) (Allocation, error) {
	if err := find(ctx, c, claim, options); err != nil {
		return Allocation{}, err
	}
	return answer(claim)
}

// Wait waits until a stored claim has its block, as [Claim] does, and leaves the claim as last seen. It calls seen
// with each answer that is not the block, so that a program can show progress. If seen returns an error, Wait ends
// and returns it. seen may be nil.
func Wait(
	ctx context.Context, c client.WithWatch, claim *ipamv1alpha1.IPClaim, seen func(*UnmetError) error,
) (Allocation, error) {
	var ended error
	err := Until(ctx, c, claim, func() bool {
		unmet := unmetBy(claim)
		if unmet == nil || unmet.Stalled || !claim.DeletionTimestamp.IsZero() {
			return true
		}
		if seen != nil {
			ended = seen(unmet)
		}
		return ended != nil
	})
	if ended != nil {
		return Allocation{}, ended
	}
	if !claim.DeletionTimestamp.IsZero() {
		return Allocation{}, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, ErrTerminating)
	}
	if unmet := unmetBy(claim); unmet != nil && ctx.Err() != nil {
		unmet.Err = context.Cause(ctx)
		return Allocation{}, unmet
	}
	if err != nil {
		return Allocation{}, fmt.Errorf("wait for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return answer(claim)
}

// find creates the claim unless there is one of its name. It reads first: a program that
// restarts finds most of its claims there, and each CREATE costs the controller an answer.
func find(ctx context.Context, c client.WithWatch, claim *ipamv1alpha1.IPClaim, options []client.CreateOption) error {
	if claim.Name == "" {
		return create(ctx, c, claim, options)
	}
	err := error(nil)
	for range 2 { // another caller may create it between the read and the CREATE
		wanted := claim.DeepCopy()
		if err := c.Get(ctx, client.ObjectKeyFromObject(wanted), claim); !missing(err) {
			return found(wanted, claim, err)
		}
		wanted.DeepCopyInto(claim)
		if err = create(ctx, c, claim, options); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return err
}

// create stores the claim. If the server does not store it, the claim stays as it was.
func create(ctx context.Context, c client.Writer, claim *ipamv1alpha1.IPClaim, options []client.CreateOption) error {
	wanted := claim.DeepCopy()
	err := c.Create(ctx, claim, options...)
	if err == nil {
		return nil
	}
	wanted.DeepCopyInto(claim)
	return refusedBy(claim, err)
}

// found compares an existing claim with the wanted one. err is the error of reading it.
func found(wanted, there *ipamv1alpha1.IPClaim, err error) error {
	name := client.ObjectKeyFromObject(wanted)
	if err != nil {
		wanted.DeepCopyInto(there)
		return fmt.Errorf("read claim %s: %w", name, err)
	}
	if !there.DeletionTimestamp.IsZero() {
		return fmt.Errorf("claim %s: %w", name, ErrTerminating)
	}
	differs, err := differences(wanted.Spec, there)
	if err != nil {
		return fmt.Errorf("compare claim %s: %w", name, err)
	}
	if len(differs) > 0 {
		return &ConflictError{Claim: there.DeepCopy(), Differs: differs}
	}
	return nil
}

// answer returns what the status of a claim says.
func answer(claim *ipamv1alpha1.IPClaim) (Allocation, error) {
	if unmet := unmetBy(claim); unmet != nil {
		return Allocation{}, unmet
	}
	a, _, err := AllocationOf(claim)
	return a, err
}
