package tenant

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/workspaces"
)

func newBind(s *session.Session) *cobra.Command {
	platform := workspaces.DefaultWorkspace
	workspace := newWorkspace{resource: schema.GroupResource{Group: "apis.kcp.io", Resource: "apibindings"}}
	cmd := &cobra.Command{
		Use:   "bind WORKSPACE",
		Short: "Make a workspace a tenant: create it, bind the APIExport, add the roles",
		Long: `Make a workspace a tenant: create the workspace if it does not exist, bind the APIExport of
the platform in it, and create the roles for its users. The command can be repeated.`,
		Example: `  kubectl ipam tenant bind root:team-c`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			workspace.path = args[0]
			return bindTenant(cmd.Context(), s, workspace, platform)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	workspace.addFlags(cmd)
	cmd.Flags().StringVar(&platform, "platform", platform, "Workspace of the platform")
	return cmd
}

func bindTenant(ctx context.Context, s *session.Session, workspace newWorkspace, platform string) error {
	if err := validWorkspace(workspace.path); err != nil {
		return err
	}
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	if err := checkPlatform(ctx, cfg, platform); err != nil {
		return err
	}
	var cluster logicalcluster.Name
	if err = workspace.announce(ctx, s, cfg); err == nil {
		s.Waits()("binding the API in " + workspace.path)
		cluster, err = workspaces.EnsureTenant(ctx, cfg,
			workspaces.TenantOptions{Workspace: workspace.path, Platform: platform})
	}
	if err != nil {
		parent, _ := logicalcluster.NewPath(workspace.path).Split()
		return needing(err,
			fmt.Sprintf("the role cluster-admin in %s, or the right to create workspaces in %s if it is new, "+
				"and the right to bind the APIExport of %s, which the role ipam-bind gives there",
				workspace.path, parent, platform))
	}
	s.Say("%s is a tenant of %s: logical cluster %s", workspace.path, platform, cluster)
	return nil
}
