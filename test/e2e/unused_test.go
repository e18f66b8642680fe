package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A class cannot be deleted while claims use the pools that it has made. Once these claims are gone, it can, even
// while unused pools still exist.
func TestClass_IsKeptWhileItsPoolsAreUsed(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	net, inside := r.network(), r.endpoint("a", "vpc")
	r.gets(net, inside)
	for _, name := range []string{r.name + "-net", r.name + "-loc"} {
		err := r.platform.Delete(t.Context(), gen.Class(name))
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), fmt.Sprintf("class %q is in use", name)) {
			t.Errorf("DELETE of class %s: %v; want a Conflict that says it is in use", name, err)
		}
	}
	r.gone(inside)
	framework.WaitCondition(t, r.tenant, r.pool(inside), ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	deletedOnceUnused(t, r.platform, gen.Class(r.name+"-loc")) // its pool is idle
	r.gone(net)
	deletedOnceUnused(t, r.platform, gen.Class(r.name+"-net"))
}

// deletedOnceUnused deletes an object, which is refused while the ledger has a block of it. The object's status may
// be older: it called the pool unused before it was used, and an unanswered CREATE may have reserved an address, for
// 75 seconds.
func deletedOnceUnused(t *testing.T, c client.Writer, object client.Object) {
	t.Helper()
	framework.Within(t, framework.Patience+75*time.Second, fmt.Sprintf("%T %s to be deleted", object, object.GetName()), func(ctx context.Context) error {
		return client.IgnoreNotFound(c.Delete(ctx, object))
	})
}

// A tenant may delete an unused pool that was made for it. The pool's status says when it would go by itself.
func TestRanges_AnIdlePoolMayBeDeleted(t *testing.T) {
	t.Parallel()
	r := newRanges(t)
	a := r.endpoint("a", "vpc")
	r.gets(a)
	made := r.pool(a)
	if err := r.tenant.Delete(t.Context(), made.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("DELETE of a pool in use: %v; want a Conflict", err)
	}
	r.gone(a)
	framework.Eventually(t, "the pool to say when it goes", func(ctx context.Context) error {
		if err := r.tenant.Get(ctx, client.ObjectKeyFromObject(made), made); err != nil {
			return err
		}
		used := meta.FindStatusCondition(made.Status.Conditions, ipamv1alpha1.ConditionInUse)
		if used == nil || used.Status != "False" || !strings.Contains(used.Message, "it goes at ") {
			return fmt.Errorf("InUse is %+v", used)
		}
		return nil
	})
	deletedOnceUnused(t, r.tenant, made)
	framework.WaitGone(t, r.tenant, made)
	again := r.endpoint("again", "vpc")
	r.gets(again)
	if r.pool(again) == nil {
		t.Error("the pool was not made again")
	}
}
