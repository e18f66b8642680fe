package check

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/build"
)

// versions are the versions that the command version shows, as -o prints them.
type versions struct {
	Program    string `json:"program"`
	API        string `json:"api"`
	Server     string `json:"server,omitempty"`
	Controller string `json:"controller,omitempty"`
	Workspace  string `json:"workspace,omitempty"`
}

// NewVersion makes kubectl ipam version.
func NewVersion(s *session.Session) *cobra.Command {
	alone, out := false, &output.Printer{}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this program, the server and the controller",
		Long: `Show the version of this program, of the API that it uses, and of the server, and the
current workspace. The version of the controller is that of the classes that you may see.`,
		Example: `  # ask no server
  kubectl ipam version --client`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showVersion(cmd.Context(), s, alone, versions{Program: build.Version() + ", " + build.Go()}, out)
		},
	}
	cmd.Flags().BoolVar(&alone, "client", false, "Show the version of this program only, and ask no server")
	out.AddFlags(cmd)
	return cmd
}

func showVersion(ctx context.Context, s *session.Session, alone bool, shown versions, out *output.Printer) error {
	shown.API = ipamv1alpha1.GroupVersion.String()
	var err error
	if !alone {
		err = shown.ask(ctx, s)
	}
	if !out.Tabular() {
		return errors.Join(err, out.PrintReport(s.Out, shown, nil))
	}
	page := s.Page()
	page.Line("Program", shown.Program)
	page.Line("API", shown.API)
	page.Line("Server", shown.Server)
	page.Line("Controller", shown.Controller)
	page.Line("Workspace", shown.Workspace)
	return err
}

// ask asks the server for its own version and that of the controller, and finds the name of the current workspace.
func (v *versions) ask(ctx context.Context, s *session.Session) error {
	here, err := s.Here()
	if err != nil {
		return err
	}
	asked, err := discovery.NewDiscoveryClientForConfig(here.Config)
	if err != nil {
		return err
	}
	info, err := asked.ServerVersion()
	if err != nil {
		return err
	}
	v.Server, v.Workspace = info.GitVersion, here.Workspace()
	v.Controller, err = controller(ctx, here)
	return err
}

// controller returns the version of the controller, which each class has; empty if the caller sees none. During an
// upgrade, there may be two.
func controller(ctx context.Context, c client.Reader) (string, error) {
	classes := &ipamv1alpha1.IPClassList{}
	if err := c.List(ctx, classes); exit.IgnoreUnseen(err) != nil && !meta.IsNoMatchError(err) {
		return "", err
	}
	var found []string
	for i := range classes.Items {
		if version := classes.Items[i].Annotations[ipamv1alpha1.AnnotationController]; version != "" {
			found = append(found, version)
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", "), nil
}
