package workspaces

import (
	"strings"

	"k8s.io/client-go/rest"
)

// The identity of the controller in the platform workspace.
const (
	ControllerNamespace = "ipam-system"
	ControllerAccount   = "ipam-controller"
)

// At returns a copy of cfg that speaks to a workspace, named by its path or by
// its logical cluster. The workspace cfg spoke to before does not matter.
func At(cfg *rest.Config, workspace string) *rest.Config {
	at := rest.CopyConfig(cfg)
	base, _, _ := strings.Cut(cfg.Host, "/clusters/")
	at.Host = strings.TrimSuffix(base, "/") + "/clusters/" + workspace
	return at
}
