package absent_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kcp-ipam/ipam/internal/absent"
)

// A server that has just started answers 404 for kinds that it does not serve yet. That says nothing about their
// objects.
func TestObject(t *testing.T) {
	t.Parallel()
	bindings := schema.GroupResource{Group: "apis.kcp.io", Resource: "apibindings"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":            {},
		"of this name":        {err: apierrors.NewNotFound(bindings, "ipam"), want: true},
		"wrapped":             {err: fmt.Errorf("get: %w", apierrors.NewNotFound(bindings, "ipam")), want: true},
		"of another name":     {err: apierrors.NewNotFound(bindings, "team-a")},
		"of another kind":     {err: apierrors.NewNotFound(schema.GroupResource{Resource: "workspaces"}, "ipam")},
		"kind not served":     {err: apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", bindings, "ipam", "404 page not found", 0, true)},
		"refused":             {err: apierrors.NewForbidden(bindings, "ipam", errors.New("no"))},
		"not from the server": {err: errors.New("connection refused")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := absent.Object(test.err, bindings.Resource, "ipam"); got != test.want {
				t.Errorf("Object(%v, ipam) = %t; want %t", test.err, got, test.want)
			}
		})
	}
}
