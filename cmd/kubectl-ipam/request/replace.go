package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// instead is what to do about an object that has the name of another one that is wanted.
func instead(there client.Object) string {
	kind, name := facts.Kind(there), facts.Args(there)
	_, isClaim := there.(*ipamv1alpha1.IPClaim)
	switch {
	case facts.AnswerOf(there).Data == "":
		return fmt.Sprintf("it holds no block: --replace replaces it, kubectl ipam %s release %s deletes it", kind, name)
	case isClaim:
		return "use another name, or release the claim first: kubectl ipam claim release " + name
	default:
		return fmt.Sprintf("kubectl ipam %s show %s shows it, kubectl edit ip%s %s changes it; or use another name", kind, name, kind, name)
	}
}

// unlikeOf says which labels and annotations that are wanted an object does not have. Others may
// have been added to it.
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

// leaving is how long an object without a block may take to be gone.
const leaving = 30 * time.Second

// deleteUnbound deletes a claim or a pool that has no block, and waits until it is gone. The deletion names the
// version that was seen without a block: an object that has got one meanwhile stays.
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
	limited, cancel := context.WithTimeoutCause(ctx, leaving, fmt.Errorf("%s %s is not gone after %s", kind, name, leaving))
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
