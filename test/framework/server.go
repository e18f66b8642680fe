package framework

import (
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/workspaces"
)

// Admin returns a client of a workspace as kcp's own admin.
func Admin(t testing.TB, workspace string) client.WithWatch {
	t.Helper()
	c, err := workspaces.NewClient(workspaces.At(AdminConfig(t), workspace))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// AdminConfig returns the access of kcp's own admin, to the workspace root.
func AdminConfig(t testing.TB) *rest.Config {
	t.Helper()
	cfg, err := current(t).kcp.Admin()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// RestartKCP stops kcp and starts it again over its data. Clients and controllers
// that were connected find it at the same address. No other test may run meanwhile.
func RestartKCP(t testing.TB) {
	t.Helper()
	kcp := current(t).kcp
	if err := kcp.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := kcp.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}
