package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/workspaces"
)

func newTenantBind(s *session) *cobra.Command {
	platform := workspaces.DefaultWorkspace
	cmd := &cobra.Command{
		Use:   "bind WORKSPACE",
		Short: "Serve the API in a workspace: make it, bind the export, add the roles",
		Long: `Make a workspace a tenant: the workspace itself if it is missing, in it the APIBinding to
the export of the platform, and the roles for its people. It may be run again at any time.`,
		Example: `  kubectl ipam tenant bind root:team-a`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.tenantBind(cmd.Context(), workspaces.TenantOptions{Workspace: args[0], Platform: platform})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&platform, "platform", platform, "The platform's workspace")
	return cmd
}

func (s *session) tenantBind(ctx context.Context, opts workspaces.TenantOptions) error {
	if err := validWorkspace(opts.Workspace); err != nil {
		return err
	}
	cfg, err := s.config()
	if err != nil {
		return err
	}
	spinner := s.spin("binding the API in " + opts.Workspace)
	cluster, err := workspaces.EnsureTenant(ctx, cfg, opts)
	spinner.stop()
	if err != nil {
		return err
	}
	s.say("%s is a tenant of %s: logical cluster %s", opts.Workspace, opts.Platform, cluster)
	return nil
}
