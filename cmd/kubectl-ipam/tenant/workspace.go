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

// newWorkspace is a workspace that a command creates if it does not exist.
type newWorkspace struct {
	path string
	// createParents lets the command create missing workspaces above it, too.
	createParents bool
	// resource is the resource that the command will create in the workspace.
	resource schema.GroupResource
}

func (w *newWorkspace) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.createParents, "create-parents", false,
		"Create the workspaces above it as well, if they do not exist")
}

// validWorkspace refuses a path at which no workspace can be created.
func validWorkspace(path string) error {
	if !strings.HasPrefix(path, "root:") || strings.HasSuffix(path, ":") {
		return exit.Usagef("%q is no workspace to make; write a path below root, such as root:acme:web", path)
	}
	return nil
}

// announce prints which workspaces will be created. It refuses to create parents unless the caller has asked for that.
// It fails if the server would refuse to create the first workspace.
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

// enter fails if the caller cannot create w.resource in the workspace. It asks for an access review, because a request
// that kcp refuses is retried for half a minute, in case a grant is new.
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

// checkPlatform fails if a workspace lacks the APIExport that tenants bind. It does not fail if the caller may not read
// the APIExport, because the caller may still be able to bind it.
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

// needingKCP replaces the error of a server that serves no workspaces by one that says what to do without kcp. Any
// other error stays as it is.
func needingKCP(err error) error {
	if !absent.Resource(err) {
		return err
	}
	return exit.Fail(exit.Unavailable,
		"name a kcp by --context or --server; a cluster without kcp has no workspaces, and is made ready by "+
			"ipam-controller --standalone --bootstrap: see docs/standalone.md",
		"this server is no kcp: it serves no workspaces")
}

// needing adds to the error of a refused request which rights the caller needs.
func needing(err error, rights string) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	if _, known := errors.AsType[*exit.Failure](err); known {
		return err
	}
	return &exit.Failure{Code: exit.Forbidden, Err: err, Hint: "this needs " + rights}
}
