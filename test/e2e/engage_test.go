package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

// endpoint is how the path of a request to an endpoint of the export begins.
const endpoint = "/services/apiexport/"

// discovery reports whether a request asks an endpoint what it serves.
func discovery(r *http.Request) bool {
	_, path, ok := strings.Cut(r.URL.Path, "/clusters/")
	_, path, _ = strings.Cut(path, "/")
	return ok && strings.HasPrefix(r.URL.Path, endpoint) && (path == "api" || strings.HasPrefix(path, "apis") && strings.Count(path, "/") < 3)
}

// lists reports whether a request lists or watches a resource of all workspaces at an endpoint.
func lists(resource string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, endpoint) && strings.HasSuffix(r.URL.Path, "/"+resource)
	}
}

// waitEngaged waits until so many workspaces are bound, and all of them engaged.
func waitEngaged(t *testing.T, platform *framework.Platform, count int) {
	t.Helper()
	for _, state := range []string{"bound", "engaged"} {
		begin := fmt.Sprintf("ipam_workspaces{state=%q} ", state)
		framework.Eventually(t, fmt.Sprintf("%d workspaces to be %s", count, state), func(context.Context) error {
			if got := metric(platform.Metrics(t), begin); got != fmt.Sprint(count) {
				return fmt.Errorf("there are %s", got)
			}
			return nil
		})
	}
	if err := platform.Probe(t.Context(), "/readyz/workspaces"); err != nil {
		t.Errorf("the controller is not ready: %v", err)
	}
}
