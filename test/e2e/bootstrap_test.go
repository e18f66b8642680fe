package e2e

import (
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/workspaces"
)

func TestBootstrap_RefusesRoot(t *testing.T) {
	t.Parallel()
	err := workspaces.Bootstrap(t.Context(), framework.AdminConfig(t), workspaces.Options{Workspace: "ipam"})
	if err == nil || !strings.Contains(err.Error(), "root:ipam") {
		t.Errorf("Bootstrap in workspace ipam: %v; want a refusal that says what to write", err)
	}
}
