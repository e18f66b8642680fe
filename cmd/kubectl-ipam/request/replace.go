package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// differs is the error of creating a claim whose name is taken by one that asks for something
// else.
func differs(conflict *ipamclient.ConflictError) error {
	name := facts.Args(conflict.Claim)
	hint := fmt.Sprintf("use another name, or release the claim first: kubectl ipam claim release %s", name)
	if conflict.Claim.Status.AllocatedCIDR == "" {
		hint = fmt.Sprintf("it holds no block: --replace replaces it, kubectl ipam claim release %s deletes it", name)
	}
	return exit.Fail(exit.Conflict, hint, "%w", conflict)
}

// taken is the error of creating a pool or a class whose name is taken by one that asks for
// something else. unlike says in which labels and annotations it differs.
func taken(there client.Object, unlike []string) error {
	kind, name := facts.Kind(there), there.GetName()
	what := "it asks for something else"
	if len(unlike) > 0 {
		what += ": " + strings.Join(unlike, ", ")
	}
	hint := fmt.Sprintf("kubectl ipam %s show %s shows it, kubectl edit ip%s %s changes it; or use another name", kind, name, kind, name)
	return exit.Fail(exit.Conflict, hint, "there is a %s %s already, and %s", kind, facts.Name(there), what)
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

// leaving is how long a deleted claim may take to be gone. It has no finalizer of this project.
const leaving = 30 * time.Second

// replaceUnbound deletes a claim that has no block and creates another one of its name. The
// deletion names the version that was seen without a block: a claim that is bound meanwhile
// stays.
func (r *Command) replaceUnbound(ctx context.Context, c client.WithWatch, there, wanted *ipamv1alpha1.IPClaim) error {
	if there.Status.AllocatedCIDR != "" {
		return exit.Fail(exit.Conflict, fmt.Sprintf("kubectl ipam claim release %s gives its block back", facts.Args(there)),
			"claim %s holds %s; --replace replaces claims without a block only", facts.Name(there), there.Status.AllocatedCIDR)
	}
	uid, version := there.GetUID(), there.GetResourceVersion()
	err := c.Delete(ctx, there, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if apierrors.IsConflict(err) {
		return exit.Fail(exit.Conflict, fmt.Sprintf("kubectl ipam claim show %s shows it", facts.Args(there)),
			"claim %s has changed meanwhile, and may be bound now", facts.Name(there))
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, leaving, fmt.Errorf("claim %s is not gone after %s", facts.Name(there), leaving))
	defer cancel()
	gone := apierrors.IsNotFound(err)
	err = ipamclient.Until(limited, c, there, func() bool { return gone })
	if errors.Is(err, context.DeadlineExceeded) {
		return exit.Fail(exit.Unavailable, "a finalizer may hold it; try again when it is gone", "%w", context.Cause(limited))
	}
	if err != nil && !errors.Is(err, ipamclient.ErrGone) {
		return err
	}
	_, err = ipamclient.Ensure(ctx, c, wanted)
	return whenStored(err)
}
