package tenant

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/workspaces"
)

// NewInit makes kubectl ipam init.
func NewInit(s *session.Session) *cobra.Command {
	dryRun, platform := false, newWorkspace{
		path:     workspaces.DefaultWorkspace,
		resource: schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	}
	cmd := &cobra.Command{
		Use:   "init [WORKSPACE]",
		Short: "Make a workspace the platform, or bring it up to date",
		Long: `Make a workspace the platform, or bring it up to date: create the definitions of the API,
its policies, its schemas for tenants, the roles, the APIExport, and the read-only view of
classes for tenants. The command can be repeated. Without an argument the workspace is
` + workspaces.DefaultWorkspace + `.`,
		Example: `  # read the manifests first
  kubectl ipam init --dry-run | less`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				platform.path = args[0]
			}
			if dryRun {
				return printManifests(s.Out, platform.path)
			}
			return initialise(cmd.Context(), s, platform)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	platform.addFlags(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "Print the manifests and do nothing")
	return cmd
}

func initialise(ctx context.Context, s *session.Session, platform newWorkspace) error {
	if err := validWorkspace(platform.path); err != nil {
		return err
	}
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	err = platform.announce(ctx, s, cfg)
	if err == nil {
		err = workspaces.Bootstrap(ctx, cfg, workspaces.Options{
			Workspace: platform.path,
			Progress:  func(step string) { s.Say("%s", step) },
		})
	}
	if err != nil {
		parent, _ := logicalcluster.NewPath(platform.path).Split()
		return needing(err, fmt.Sprintf("the role cluster-admin in %s, or the right to create workspaces in %s if it is new",
			platform.path, parent))
	}
	s.Say("%s is the platform; next: start ipam-controller --workspace %s, and kubectl ipam tenant bind",
		platform.path, platform.path)
	return nil
}

// printManifests prints the manifests that init applies, in the order in which it applies them.
func printManifests(w io.Writer, workspace string) error {
	fmt.Fprintf(w, `# What kubectl ipam init applies to %s, in this order.
# Known only on a running kcp, and filled in there: %s, the logical cluster of
# that workspace, and %s, status.identityHash of the CachedResource.
`, workspace, config.PlatformCluster, config.ClassesIdentity)
	for _, folder := range []fs.FS{config.Policies(), config.CRDs(), config.Schemas(), config.PlatformRBAC()} {
		files, err := fs.Glob(folder, "*.yaml")
		if err != nil {
			return err
		}
		for _, file := range files {
			manifest, err := fs.ReadFile(folder, file)
			if err != nil {
				return err
			}
			printManifest(w, manifest)
		}
	}
	printManifest(w, config.CachedResource())
	printManifest(w, config.APIExport())
	return nil
}

func printManifest(w io.Writer, manifest []byte) {
	fmt.Fprintf(w, "---\n%s\n", strings.TrimSpace(strings.TrimPrefix(string(manifest), "---\n")))
}
