package framework

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/testbed"
)

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
	testbed.Delete(t, c, objects...)
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
