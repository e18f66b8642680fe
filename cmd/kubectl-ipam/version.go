package main

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// versions are what the version command shows, and the fields of -o.
type versions struct {
	Program   string `json:"program"`
	API       string `json:"api"`
	Server    string `json:"server,omitempty"`
	Workspace string `json:"workspace,omitempty"`
}

func newVersion(s *session) *cobra.Command {
	client, out := false, &report{}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this program and of the server",
		Long: `Show the version of this program, of the API that it uses, and of the server, and the
current workspace.`,
		Example: `  kubectl ipam version

  # ask no server
  kubectl ipam version --client`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return s.version(client, out) },
	}
	cmd.Flags().BoolVar(&client, "client", false, "Show the version of this program only, and ask no server")
	out.addFlags(cmd)
	return cmd
}

func (s *session) version(client bool, out *report) error {
	if err := out.validate(); err != nil {
		return err
	}
	shown := versions{Program: built(), API: ipamv1alpha1.GroupVersion.String()}
	var err error
	if !client {
		shown.Server, shown.Workspace, err = s.server()
	}
	if out.given() {
		return errors.Join(err, out.print(s.Out, shown))
	}
	page := sheet{w: s.Out, paint: s.out}
	page.line("Program", shown.Program)
	page.line("API", shown.API)
	page.line("Server", shown.Server)
	page.line("Workspace", shown.Workspace)
	return err
}

// server is the version of the server, and the current workspace.
func (s *session) server() (version, workspace string, err error) {
	cfg, err := s.config()
	if err != nil {
		return "", "", err
	}
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return "", "", err
	}
	info, err := c.ServerVersion()
	if err != nil {
		return "", "", err
	}
	return info.GitVersion, workspaceOf(cfg), nil
}

// version is set by make release; otherwise it is that of the module.
var version string

// built is the version that this program was built from.
func built() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	return fmt.Sprintf("%s, %s", cmp.Or(version, info.Main.Version), info.GoVersion)
}
