package testbed

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Create creates objects, in their order.
func Create(t testing.TB, c client.Writer, objects ...client.Object) {
	t.Helper()
	each(t, "create", objects, func(ctx context.Context, object client.Object) error { return c.Create(ctx, object) })
}

// Read reads objects again, by their names.
func Read(t testing.TB, c client.Reader, objects ...client.Object) {
	t.Helper()
	each(t, "read", objects, func(ctx context.Context, object client.Object) error {
		return c.Get(ctx, client.ObjectKeyFromObject(object), object)
	})
}

// Update stores objects as they are now.
func Update(t testing.TB, c client.Writer, objects ...client.Object) {
	t.Helper()
	each(t, "update", objects, func(ctx context.Context, object client.Object) error { return c.Update(ctx, object) })
}

// Delete deletes objects. It does not wait until they are gone.
func Delete(t testing.TB, c client.Writer, objects ...client.Object) {
	t.Helper()
	each(t, "delete", objects, func(ctx context.Context, object client.Object) error { return c.Delete(ctx, object) })
}

func each(t testing.TB, verb string, objects []client.Object, do func(context.Context, client.Object) error) {
	t.Helper()
	for _, object := range objects {
		if err := do(t.Context(), object); err != nil {
			t.Fatalf("%s %T %s: %v", verb, object, client.ObjectKeyFromObject(object), err)
		}
	}
}
