// Package tenant makes platforms and tenants: kubectl ipam init, tenant and controller-kubeconfig.
package tenant

import (
	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// New makes kubectl ipam tenant.
func New(s *session.Session) *cobra.Command {
	return session.Group(&cobra.Command{
		Use:     "tenant",
		Aliases: []string{"tenants"},
		Short:   "Make workspaces tenants of the platform, and list them",
		Long: `A tenant is a workspace that is bound to the API of a platform. Its users claim from the
pools of the platform, and from pools of their own.`,
		Example: `  kubectl ipam tenant bind root:team-c
  kubectl ipam tenant list`,
	}, newBind(s), newList(s))
}
