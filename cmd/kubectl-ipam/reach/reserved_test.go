package reach

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The platform alone is told how to find the workspace of a reservation.
func TestReserved_IsForThePlatform(t *testing.T) {
	if hint := (&View{}).Reserved("10.0.0.0/24"); hint != "" {
		t.Errorf("a tenant is told %q, want nothing", hint)
	}
	if hint := (&View{Tenants: []client.Reader{nil}}).Reserved("10.0.0.0/24"); !strings.Contains(hint, "ipam-controller history 10.0.0.0/24 --reserved") {
		t.Errorf("the platform is told %q, want the command that names the workspaces", hint)
	}
}
