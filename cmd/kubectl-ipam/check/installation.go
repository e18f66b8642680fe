package check

import (
	"context"
	"errors"
	"slices"
	"time"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/rights"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/workspaces"
)

// installation is what the caller sees of an installation. Each fact has the error of the request for it.
type installation struct {
	workspace, namespace string
	// place is the kind of the workspace, as far as the caller can tell.
	place rights.Place

	// server is the version of the API server.
	server    string
	serverErr error
	// served are the resources of the API.
	served    []string
	servedErr error
	// bindings are the APIBindings to the export, the one in use first; none in the platform workspace.
	bindings   []apisv1alpha2.APIBinding
	bindingErr error
	// export is the APIExport of the platform workspace, and endpoints is how many shards serve it.
	export    *apisv1alpha2.APIExport
	exportErr error
	endpoints int
	// may says by verb and resource whether the caller may make the request.
	may    map[access]bool
	mayErr error
	// trial is a claim, as the dry run of its CREATE returned it.
	trial    *ipamv1alpha1.IPClaim
	trialErr error
	// machines is nil on a server without Cluster API.
	machines *machines
}

// access is a verb on a resource of the API.
type access struct{ verb, resource string }

var (
	// needed are the requests that a user must be able to make in order to claim.
	needed = []access{{"list", "ipclaims"}, {"create", "ipclaims"}, {"delete", "ipclaims"}}
	// kept are rights on the platform: each role for its users has one of them.
	kept = []access{{"create", "ipclasses"}, {"create", "ippools"}, {"list", "ipclaims"}}
)

// inspect collects the facts. It returns only errors of the command line, and that of ctx.
func inspect(ctx context.Context, s *session.Session) (*installation, error) {
	here, err := s.Here()
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		here.Config.Timeout = time.Until(end) // the requests of discovery have no context
	}
	asked, err := discovery.NewDiscoveryClientForConfig(here.Config)
	if err != nil {
		return nil, err
	}
	found := &installation{workspace: here.Workspace(), namespace: here.Namespace}
	info, err := asked.ServerVersion()
	if found.serverErr = err; err == nil {
		found.server = info.GitVersion
		found.read(ctx, asked, here)
	}
	return found, ctx.Err()
}

// read asks for the facts of a server that is known to answer.
func (i *installation) read(ctx context.Context, asked discovery.DiscoveryInterface, c client.Client) {
	i.readAPI(asked)
	i.place, _ = rights.Find(asked) // readAPI gets the same error
	i.readBindings(ctx, c)
	i.readExport(ctx, c)
	i.readMachines(ctx, asked, c)
	if i.servedErr == nil {
		i.askAccess(ctx, c)
		// The claim is answered, and not stored.
		i.trial = &ipamv1alpha1.IPClaim{ObjectMeta: metav1.ObjectMeta{GenerateName: "ipam-check-", Namespace: i.namespace}}
		i.trialErr = c.Create(ctx, i.trial, client.DryRunAll)
	}
}

func (i *installation) readAPI(asked discovery.DiscoveryInterface) {
	list, err := asked.ServerResourcesForGroupVersion(ipamv1alpha1.GroupVersion.String())
	if i.servedErr = err; err != nil {
		return
	}
	for _, resource := range list.APIResources {
		i.served = append(i.served, resource.Name)
	}
	if len(i.served) == 0 { // other servers answer that there is no such group; kcp answers with an empty list
		i.servedErr = apierrors.NewNotFound(schema.GroupResource{Group: ipamv1alpha1.GroupName}, "")
	}
}

func (i *installation) readBindings(ctx context.Context, c client.Client) {
	list := &apisv1alpha2.APIBindingList{}
	i.bindingErr = c.List(ctx, list)
	i.bindings = workspaces.Bindings(list)
}

func (i *installation) readExport(ctx context.Context, c client.Client) {
	key, export := client.ObjectKey{Name: workspaces.ExportName}, &apisv1alpha2.APIExport{}
	if i.exportErr = c.Get(ctx, key, export); i.exportErr != nil {
		return
	}
	i.export = export
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	i.exportErr = c.Get(ctx, key, slice)
	i.endpoints = len(slice.Status.APIExportEndpoints)
}

// exportGone says that the export by which the API was served no longer exists. It is empty if the export exists, or if
// the caller sees too little to tell. kcp goes on serving what it has bound.
func (i *installation) exportGone() string {
	switch {
	case i.servedErr != nil || i.bindingErr != nil:
		return ""
	case len(i.bindings) > 0:
		if err := workspaces.Bound(&i.bindings[0]); errors.Is(err, workspaces.ErrNoExport) {
			return "APIBinding " + i.bindings[0].Name + ": " + err.Error()
		}
	case absent.Object(i.exportErr, "apiexports", workspaces.ExportName):
		return "there is no APIExport " + workspaces.ExportName + ", and no tenant is served"
	}
	return ""
}

func (i *installation) askAccess(ctx context.Context, c client.Client) {
	i.may = map[access]bool{}
	for _, want := range slices.Concat(needed, kept) {
		review := &authorizationv1.SelfSubjectAccessReview{}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Verb: want.verb, Group: ipamv1alpha1.GroupName, Resource: want.resource, Namespace: i.namespace,
		}
		if i.mayErr = c.Create(ctx, review); i.mayErr != nil {
			return
		}
		i.may[want] = review.Status.Allowed
	}
}
