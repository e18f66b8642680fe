//go:build long

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Whatever fails while a controller engages the first workspaces of an endpoint, they and those
// that come later are served when it is over, without a restart. What an endpoint serves it is not asked.
func TestLong_EngageAfterAFailure(t *testing.T) {
	t.Parallel()
	link, platform := framework.NewPlatform(t).Link(t, "linked", sweeping...)
	class := framework.Name(t)
	platform.StartController(t)
	offer(t, platform, class, platform.CIDR(t))
	first := platform.Tenant(t)
	platform.StopController(t)

	link.Fail(discovery)
	platform.StartController(t)
	bindSome(t, first, class, "undiscovered", 1)
	link.Restore()
	platform.StopController(t)
	for i, failure := range []struct {
		name  string
		fails func(*http.Request) bool
	}{
		{"bindings", lists("apibindings")},
		{"claims", lists("ipclaims")},
		{"allocations", lists("ipallocations")},
		{"pools", lists("ippools")},
	} {
		t.Log(failure.name)
		link.Fail(failure.fails)
		platform.LaunchController(t) // it is not ready before it has listed what fails
		early := gen.Claim("early-"+failure.name, gen.OfClass(class), gen.Length(28))
		framework.Create(t, first, early)
		next := platform.Tenant(t)
		link.WaitFailed(t, 1)
		link.Restore()

		framework.WaitBound(t, first, early)
		bindSome(t, first, class, "first-"+failure.name, 1)
		bindSome(t, next, class, "next", 1)
		waitEngaged(t, platform, 2+i)
		platform.StopController(t)
	}
}

// discovery reports whether a request asks an endpoint what it serves.
func discovery(r *http.Request) bool {
	_, path, ok := strings.Cut(r.URL.Path, "/clusters/")
	_, path, _ = strings.Cut(path, "/")
	return ok && strings.HasPrefix(r.URL.Path, endpoint) && (path == "api" || strings.HasPrefix(path, "apis") && strings.Count(path, "/") < 3)
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
