package request

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// advised adds to the error about a claim what the caller can do about it: the name that was
// meant, if one that is listed is near, and how to correct a claim that was created.
func (r *Command) advised(ctx context.Context, c client.Reader, object client.Object, err error) error {
	failed, isFailure := errors.AsType[*exit.Failure](err)
	claim, isClaim := object.(*ipamv1alpha1.IPClaim)
	if !isFailure || !isClaim || failed.Reason == "" {
		return err
	}
	if near := meant(ctx, c, claim, failed.Reason); near != "" {
		failed.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	if claim.UID != "" {
		replace := "--replace with the corrected command replaces it, "
		if claim.GenerateName != "" {
			replace = "" // the command has no name to repeat
		}
		failed.Hint += fmt.Sprintf("\nthe claim stays: %skubectl ipam claim release %s deletes it", replace, facts.Args(claim))
	}
	return failed
}

// meant is the class or pool whose name is nearest to the one that was not found; empty
// without a near one among those that the caller may list.
func meant(ctx context.Context, c client.Reader, claim *ipamv1alpha1.IPClaim, reason ipamv1alpha1.Reason) string {
	asked, names := claim.Spec.ClassName, session.ClassNames
	switch ref := claim.Spec.PoolRef; {
	case reason == ipamv1alpha1.ReasonPoolNotFound && ref != nil && ref.ProjectRef == nil:
		asked, names = ref.Name, session.PoolNames
	case reason != ipamv1alpha1.ReasonClassNotFound:
		return ""
	}
	known, err := names(ctx, c, claim.Namespace)
	if err != nil {
		return ""
	}
	return nearest(asked, known)
}

// nearest is the known word that was probably meant, by the rule by which cobra suggests commands: one
// that begins with what was typed, or differs from it in few letters. Empty if there is none, or if
// the word itself is known.
func nearest(typed string, known []string) string {
	for far := 1; typed != "" && far <= max(1, len(typed)/3); far++ {
		words := &cobra.Command{SuggestionsMinimumDistance: far}
		for _, word := range known {
			if word == legible.Text(word) {
				words.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
			}
		}
		if near := words.SuggestionsFor(typed); len(near) > 0 && !slices.Contains(known, typed) {
			return near[0]
		}
	}
	return ""
}
