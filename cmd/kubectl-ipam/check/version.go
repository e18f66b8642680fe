package check

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// versions are what the version command shows, and the fields of -o.
type versions struct {
	Program   string `json:"program"`
	API       string `json:"api"`
	Server    string `json:"server,omitempty"`
	Workspace string `json:"workspace,omitempty"`
}

// NewVersion makes kubectl ipam version, for the version that the program was built as; empty is that of
// the module.
func NewVersion(s *session.Session, program string) *cobra.Command {
	client, out := false, &output.Report{}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this program and of the server",
		Long: `Show the version of this program, of the API that it uses, and of the server, and the
current workspace.`,
		Example: `  kubectl ipam version

  # ask no server
  kubectl ipam version --client`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return showVersion(s, client, built(program), out) },
	}
	cmd.Flags().BoolVar(&client, "client", false, "Show the version of this program only, and ask no server")
	out.AddFlags(cmd)
	return cmd
}

func showVersion(s *session.Session, client bool, program string, out *output.Report) error {
	shown := versions{Program: program, API: ipamv1alpha1.GroupVersion.String()}
	var err error
	if !client {
		shown.Server, shown.Workspace, err = server(s)
	}
	if out.Given() {
		return errors.Join(err, out.Print(s.Out, shown))
	}
	page := s.Page()
	page.Line("Program", shown.Program)
	page.Line("API", shown.API)
	page.Line("Server", shown.Server)
	page.Line("Workspace", shown.Workspace)
	return err
}

// server is the version of the server, and the current workspace.
func server(s *session.Session) (version, workspace string, err error) {
	cfg, err := s.Config()
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
	return info.GitVersion, session.WorkspaceOf(cfg), nil
}

// built is the version that this program was built from: the given one, or that of the module.
func built(version string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	return fmt.Sprintf("%s, %s", cmp.Or(version, info.Main.Version), info.GoVersion)
}
