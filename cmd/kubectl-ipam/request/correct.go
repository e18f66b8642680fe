package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// advised adds advice to an error. It names the class or pool that was probably meant, if a listed name is similar. If
// the object was created and stays, it says how to correct the object.
func (r *Command) advised(ctx context.Context, c client.Reader, object client.Object, err error) error {
	failed, isFailure := errors.AsType[*exit.Failure](err)
	if !isFailure || failed.Reason == "" {
		return err
	}
	if near := meant(ctx, c, object, failed.Reason); near != "" {
		failed.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	if object.GetUID() == "" {
		return failed
	}
	if failed.Reason == ipamv1alpha1.ReasonAddressInUse {
		failed.Hint += fmt.Sprintf("\nkubectl ipam why %s names the holder, if it is of this workspace", facts.Args(object))
	}
	failed.Hint += "\n" + stays(object)
	return failed
}

// stays says that an object without a block stays, and how to correct or delete it.
func stays(object client.Object) string {
	kind, name := facts.Kind(object), facts.Args(object)
	ways := fmt.Sprintf("--replace with the corrected command replaces it, kubectl ipam %s release %s deletes it",
		kind, name)
	switch {
	case kind == "class":
		ways = fmt.Sprintf("kubectl edit ipclass %s changes it, kubectl delete ipclass %[1]s deletes it", name)
	case object.GetGenerateName() != "": // a generated name cannot be repeated in a command
		ways = fmt.Sprintf("kubectl ipam %s release %s deletes it", kind, name)
	}
	return fmt.Sprintf("the %s stays: %s", kind, ways)
}

// meant returns the class or pool with the name most similar to one that was not found. It is empty if no name that the
// caller may list is similar.
func meant(ctx context.Context, c client.Reader, object client.Object, reason ipamv1alpha1.Reason) string {
	var asked string
	var pool *ipamv1alpha1.PoolRef
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		asked, pool = object.Spec.ClassName, object.Spec.PoolRef
	case *ipamv1alpha1.IPPool:
		asked, pool = object.Spec.ParentClassName, object.Spec.ParentPoolRef
	}
	names := session.ClassNames
	switch {
	case reason == ipamv1alpha1.ReasonPoolNotFound && pool != nil && pool.ProjectRef == nil:
		asked, names = pool.Name, session.PoolNames
	case reason != ipamv1alpha1.ReasonClassNotFound:
		return ""
	}
	known, err := names(ctx, c, object.GetNamespace())
	if err != nil {
		return ""
	}
	return nearest(asked, known)
}

// nearest returns the known word that was probably meant, by cobra's rule for suggestions: a word that begins with the
// typed text, or differs from it in few letters. It is empty if there is none, or if the typed word is known.
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

// instead says what to do about an existing object whose name another object should get.
func instead(there client.Object) string {
	kind, name := facts.Kind(there), facts.Args(there)
	_, isClaim := there.(*ipamv1alpha1.IPClaim)
	switch {
	case facts.AnswerOf(there).Data == "":
		return fmt.Sprintf("it holds no block: --replace replaces it, kubectl ipam %s release %s deletes it", kind, name)
	case isClaim:
		return "use another name, or release the claim first: kubectl ipam claim release " + name +
			"; to have its block in the new claim, kubectl ipam claim pin " + name +
			" before that, and say --retained-policy Reuse"
	default:
		return fmt.Sprintf("kubectl ipam %s show %s shows it, kubectl edit ip%s %s changes it; or use another name",
			kind, name, kind, name)
	}
}

// unlikeOf returns the wanted labels and annotations that an existing object lacks. Further ones do not matter.
func unlikeOf(wanted, there client.Object) []string {
	var unlike []string
	compare := func(what string, wanted, there map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(wanted)) {
			if there[key] != wanted[key] {
				unlike = append(unlike, fmt.Sprintf("%s %s is %q, not %q", what, key, there[key], wanted[key]))
			}
		}
	}
	compare("label", wanted.GetLabels(), there.GetLabels())
	compare("annotation", wanted.GetAnnotations(), there.GetAnnotations())
	return unlike
}

// leaving is how long to wait until an object without a block is gone.
const leaving = 30 * time.Second

// deleteUnbound deletes a claim or a pool that has no block, and waits until it is gone. The deletion is for the
// version that was read. So an object that has got a block since then stays.
func deleteUnbound(ctx context.Context, c client.WithWatch, there client.Object) error {
	kind, name, args := facts.Kind(there), facts.Name(there), facts.Args(there)
	if block := facts.AnswerOf(there).Data; block != "" {
		return exit.Fail(exit.Conflict, fmt.Sprintf("kubectl ipam %s release %s gives its block back", kind, args),
			"%s %s holds %s; --replace replaces a %s without a block only", kind, name, block, kind)
	}
	uid, version := there.GetUID(), there.GetResourceVersion()
	err := c.Delete(ctx, there, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return exit.Fail(exit.Conflict, fmt.Sprintf("kubectl ipam %s show %s shows it", kind, args),
			"%s %s has changed meanwhile, and may have a block now", kind, name)
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, leaving,
		fmt.Errorf("%s %s is not gone after %s", kind, name, leaving))
	defer cancel()
	err = ipamclient.Until(limited, c, there, func() bool { return false })
	switch {
	case errors.Is(err, ipamclient.ErrGone):
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return exit.Fail(exit.Unavailable, "a finalizer may hold it; try again when it is gone", "%w", context.Cause(limited))
	}
	return err
}
