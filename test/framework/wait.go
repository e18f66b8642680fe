package framework

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// Patience is how long a fact may take to come true before the test fails. Most take milliseconds. The limit is for a
// busy machine of two cores, on which other programs take half of the time.
const Patience = 3 * time.Minute

const interval = 50 * time.Millisecond

// Eventually calls check until it returns nil. If it never does, the test fails with the last error.
func Eventually(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	Within(t, Patience, what, check)
}

// Within is Eventually for a fact that may take longer than Patience by design.
func Within(t testing.TB, patience time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var missing error
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		// A call cut short by the end of the wait says less than the one before it.
		if seen := check(ctx); ctx.Err() == nil || missing == nil {
			missing = seen
		}
		return missing == nil, nil
	})
	if err != nil {
		t.Fatalf("waited %s for %s; last seen: %v", patience, what, missing)
	}
}

// WaitFor reads an object until check returns nil, and leaves it as last read. If
// check never does, the test fails with the object.
func WaitFor[T client.Object](t testing.TB, c client.Reader, object T, check func(T) error) {
	t.Helper()
	what := fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object))
	Eventually(t, what, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if err := check(object); err != nil {
			return fmt.Errorf("%w, in\n%s", err, text(object))
		}
		return nil
	})
}

// WaitWhile reads an object for as long as is returns true for it, and leaves it as last read. If that takes too
// long, the test fails with the object and the text of wrong.
func WaitWhile[T client.Object](t testing.TB, c client.Reader, object T, wrong string, is func(T) bool) {
	t.Helper()
	WaitFor(t, c, object, func(object T) error {
		if is(object) {
			return errors.New(wrong)
		}
		return nil
	})
}

// WaitBound waits until each claim is bound and has its record, which comes after the answer to the CREATE, and
// leaves the claims as last read. A range has no record.
func WaitBound(t testing.TB, c client.Reader, claims ...*ipamv1alpha1.IPClaim) {
	t.Helper()
	for _, claim := range claims {
		WaitFor(t, c, claim, func(claim *ipamv1alpha1.IPClaim) error {
			if claim.Status.Phase != ipamv1alpha1.ClaimBound || claim.Status.AllocatedCIDR == "" {
				return fmt.Errorf("it is not bound")
			}
			return recorded(t.Context(), c, claim)
		})
	}
}

// Patiently sends a request again while it has no answer, as a controller does, and logs each try: a busy server
// leaves requests unanswered. It returns the answer.
func Patiently(t testing.TB, send func(context.Context) error) error {
	t.Helper()
	return retry.Answered(t.Context(), Patience, func(err error) { t.Log("asking again:", err) }, send)
}

// Bind creates claims, patiently, and waits until all are bound. It is for tests that do not measure the answer to
// CREATE.
func Bind(t testing.TB, c client.Client, claims ...*ipamv1alpha1.IPClaim) {
	t.Helper()
	for _, claim := range claims {
		sent := 0
		err := Patiently(t, func(ctx context.Context) error { sent++; return c.Create(ctx, claim) })
		if sent > 1 { // an unanswered CREATE may have succeeded
			err = client.IgnoreAlreadyExists(err)
		}
		if err != nil {
			t.Fatalf("create claim %s: %v", client.ObjectKeyFromObject(claim), err)
		}
	}
	WaitBound(t, c, claims...)
}

// Allocate creates pools, and waits until each has its block.
func Allocate(t testing.TB, c client.Client, pools ...*ipamv1alpha1.IPPool) {
	t.Helper()
	for _, pool := range pools {
		Create(t, c, pool)
	}
	for _, pool := range pools {
		WaitAllocated(t, c, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	}
}

// recorded returns an error unless the claim names a record whose claim it is.
func recorded(ctx context.Context, c client.Reader, claim *ipamv1alpha1.IPClaim) error {
	if claim.Spec.Target == ipamv1alpha1.TargetScopeRange {
		return nil
	}
	if claim.Status.BoundAllocationRef == nil {
		return fmt.Errorf("it names no record")
	}
	record := &ipamv1alpha1.IPAllocation{}
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.BoundAllocationRef.Name}
	if err := c.Get(ctx, key, record); err != nil {
		return fmt.Errorf("read its record: %w", err)
	}
	if _, uid := record.HeldBy(); uid != claim.UID {
		return fmt.Errorf("its record is that of another claim, of UID %s", uid)
	}
	return nil
}

// WaitAllocated waits until the condition Allocated of a claim, pool or allocation
// has a reason, and leaves the object as last read.
func WaitAllocated(t testing.TB, c client.Reader, object client.Object, reason ipamv1alpha1.Reason) {
	t.Helper()
	WaitCondition(t, c, object, ipamv1alpha1.ConditionAllocated, reason)
}

// WaitCondition waits until a condition of an object of the API has a reason, and
// leaves the object as last read.
func WaitCondition(t testing.TB, c client.Reader, object client.Object, condition string, reason ipamv1alpha1.Reason) {
	t.Helper()
	WaitWhile(t, c, object, fmt.Sprintf("%s has not the reason %s", condition, reason), func(object client.Object) bool {
		found := meta.FindStatusCondition(conditionsOf(t, object), condition)
		return found == nil || found.Reason != string(reason)
	})
}

// WaitGone waits until an object is gone.
func WaitGone(t testing.TB, c client.Reader, object client.Object) {
	t.Helper()
	what := fmt.Sprintf("%T %s to be gone", object, client.ObjectKeyFromObject(object))
	Eventually(t, what, func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it is there:\n%s", text(object))
	})
}

func conditionsOf(t testing.TB, object client.Object) []metav1.Condition {
	t.Helper()
	switch object := object.(type) {
	case *ipamv1alpha1.IPClass:
		return object.Status.Conditions
	case *ipamv1alpha1.IPPool:
		return object.Status.Conditions
	case *ipamv1alpha1.IPClaim:
		return object.Status.Conditions
	case *ipamv1alpha1.IPAllocation:
		return object.Status.Conditions
	default:
		t.Fatalf("%T has no conditions of this API", object)
		return nil
	}
}

// text returns an object as YAML, without the fields that only servers read.
func text(object client.Object) string {
	object = object.DeepCopyObject().(client.Object)
	object.SetManagedFields(nil)
	data, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Create creates objects, in their order.
func Create(t testing.TB, c client.Writer, objects ...client.Object) {
	t.Helper()
	testbed.Create(t, c, objects...)
}

// Read reads objects again, by their names.
func Read(t testing.TB, c client.Reader, objects ...client.Object) {
	t.Helper()
	testbed.Read(t, c, objects...)
}

// Update changes an object as last read. It sends a patch that fails if the object has changed since on the server.
func Update[T client.Object](t testing.TB, c client.Writer, object T, change func(T)) {
	t.Helper()
	before := object.DeepCopyObject().(client.Object)
	change(object)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(t.Context(), object, patch); err != nil {
		t.Fatalf("change %T %s: %v", object, client.ObjectKeyFromObject(object), err)
	}
}

// Change reads an object and changes it, and repeats both while other writers interfere.
func Change[T client.Object](t testing.TB, c client.Client, object T, change func(T)) {
	t.Helper()
	Eventually(t, fmt.Sprintf("%T %s to be changed", object, object.GetName()), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return c.Update(ctx, object)
	})
}

// Delete deletes objects, patiently. It does not wait until they are gone.
func Delete(t testing.TB, c client.Writer, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := Remove(t, c, object); err != nil {
			t.Fatalf("delete %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// Remove sends a DELETE, patiently, and returns the answer.
func Remove(t testing.TB, c client.Writer, object client.Object) error {
	t.Helper()
	sent := 0
	err := Patiently(t, func(ctx context.Context) error { sent++; return c.Delete(ctx, object) })
	if sent > 1 { // an unanswered DELETE may have succeeded
		return client.IgnoreNotFound(err)
	}
	return err
}

// Name returns a name for objects of this test, different from the names of other tests.
func Name(t testing.TB) string {
	t.Helper()
	letters := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, strings.TrimPrefix(t.Name(), "Test"))
	return strings.Trim(letters, "-")
}
