package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

func newVersion(s *session) *cobra.Command {
	client := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this program and of the server",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return s.version(client) },
	}
	cmd.Flags().BoolVar(&client, "client", false, "That of this program alone; asks no server")
	return cmd
}

func (s *session) version(client bool) error {
	page := sheet{w: s.Out, paint: s.out}
	page.line("Program", built())
	page.line("API", ipamv1alpha1.GroupVersion.String())
	if client {
		return nil
	}
	cfg, err := s.config()
	if err != nil {
		return err
	}
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	server, err := c.ServerVersion()
	if err != nil {
		return err
	}
	page.line("Server", server.GitVersion)
	page.line("Workspace", workspaceOf(cfg))
	return nil
}

// version is set by make release; otherwise it is that of the module.
var version string

// built is the version that this program was built from.
func built() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return orElse(version, "unknown")
	}
	return fmt.Sprintf("%s, %s", orElse(version, info.Main.Version), info.GoVersion)
}
