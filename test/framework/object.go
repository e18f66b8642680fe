package framework

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create creates objects, in their order.
func Create(t testing.TB, c client.Writer, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("create %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// Update changes an object as last read, in a patch that fails if somebody else has
// changed it since.
func Update[T client.Object](t testing.TB, c client.Writer, object T, change func(T)) {
	t.Helper()
	before := object.DeepCopyObject().(client.Object)
	change(object)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(t.Context(), object, patch); err != nil {
		t.Fatalf("change %T %s: %v", object, client.ObjectKeyFromObject(object), err)
	}
}

// Delete deletes objects. It does not wait until they are gone.
func Delete(t testing.TB, c client.Writer, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Delete(t.Context(), object); err != nil {
			t.Fatalf("delete %T %s: %v", object, client.ObjectKeyFromObject(object), err)
		}
	}
}

// Name returns a name for objects of this test, different from those of others.
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
