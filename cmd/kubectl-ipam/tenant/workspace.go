package tenant

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/workspaces"
)

// newWorkspace is a workspace that a command creates unless it exists.
type newWorkspace struct {
	path string
	// createParents creates missing workspaces above it as well.
	createParents bool
	// resource is one that the command creates in it.
	resource schema.GroupResource
}

func (w *newWorkspace) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.createParents, "create-parents", false,
		"Create the workspaces above it as well, if they do not exist")
}

// validWorkspace refuses what is no workspace that could be created.
func validWorkspace(path string) error {
	if !strings.HasPrefix(path, "root:") || strings.HasSuffix(path, ":") {
		return exit.Usagef("%q is no workspace to make; write a path below root, such as root:acme:web", path)
	}
	return nil
}

// announce says which workspaces are about to be created. It refuses to create parents unless
// the caller asked for them, and fails if the server would refuse the first workspace.
func (w newWorkspace) announce(ctx context.Context, s *session.Session, cfg *rest.Config) error {
	missing, err := workspaces.Missing(ctx, cfg, w.path)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		return w.enter(ctx, cfg)
	}
	if len(missing) > 1 && !w.createParents {
		return exit.Fail(exit.NotFound, "correct the path, or create it with --create-parents",
			"%s does not exist, and %s would be in it", missing[0], w.path)
	}
	parent, name := logicalcluster.NewPath(missing[0]).Split()
	c, err := session.NewClient(workspaces.At(cfg, parent.String()))
	if err != nil {
		return err
	}
	first := &tenancyv1alpha1.Workspace{}
	first.Name = name
	if err := c.Create(ctx, first, client.DryRunAll); client.IgnoreAlreadyExists(err) != nil {
		return needingKCP(fmt.Errorf("create workspace %s: %w", missing[0], err))
	}
	for _, path := range missing {
		s.Say("creating workspace %s", path)
	}
	return nil
}

// enter fails if the caller cannot create in the workspace what the command creates. It asks for
// a review of access: a refusal by kcp is otherwise retried for half a minute, in case a grant is new.
func (w newWorkspace) enter(ctx context.Context, cfg *rest.Config) error {
	c, err := session.NewClient(workspaces.At(cfg, w.path))
	if err != nil {
		return err
	}
	review := &authorizationv1.SelfSubjectAccessReview{}
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Verb: "create", Group: w.resource.Group, Resource: w.resource.Resource,
	}
	err = c.Create(ctx, review)
	if apierrors.IsForbidden(err) || err == nil && !review.Status.Allowed {
		err = apierrors.NewForbidden(w.resource, "", errors.New("you cannot create it in "+w.path))
	}
	return err
}

// checkPlatform fails unless a workspace has the APIExport that tenants bind. Users who
// cannot read the APIExport may still be able to bind it.
func checkPlatform(ctx context.Context, cfg *rest.Config, platform string) error {
	c, err := session.NewClient(workspaces.At(cfg, platform))
	if err != nil {
		return err
	}
	err = c.Get(ctx, client.ObjectKey{Name: workspaces.ExportName}, &apisv1alpha2.APIExport{})
	if absent.Resource(err) {
		return needingKCP(err)
	}
	if apierrors.IsNotFound(err) {
		return exit.Fail(exit.NotFound, "name the platform by --platform, or create it: kubectl ipam init "+platform,
			"%s is not a platform: it has no APIExport %s", platform, workspaces.ExportName)
	}
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// needingKCP says of a server that serves no workspaces what to do without them. Any other error stays as it is.
func needingKCP(err error) error {
	if !absent.Resource(err) {
		return err
	}
	return exit.Fail(exit.Unavailable,
		"name a kcp by --context or --server; a cluster without kcp has no workspaces, and is made ready by "+
			"ipam-controller --standalone --bootstrap: see docs/standalone.md",
		"this server is no kcp: it serves no workspaces")
}

// needing adds to a refusal what the caller needs to be allowed.
func needing(err error, rights string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if _, known := errors.AsType[*exit.Failure](err); known {
		return err
	}
	return &exit.Failure{Code: exit.Forbidden, Err: err, Hint: "this needs " + rights}
}
