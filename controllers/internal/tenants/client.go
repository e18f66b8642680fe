package tenants

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// all stands in the path of a request for the workspace that the context of the request names.
const all = "/clusters/*/"

// workspaceKey is the context key for the name of the workspace that a request is for.
type workspaceKey struct{}

// router sends requests to the workspace that their context names. Safe for concurrent use.
type router struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r router) RoundTrip(request *http.Request) (*http.Response, error) {
	name, ok := request.Context().Value(workspaceKey{}).(multicluster.ClusterName)
	if !ok || name == "" || !strings.Contains(request.URL.Path, all) {
		return nil, fmt.Errorf("%s %s names no workspace", request.Method, request.URL.Path)
	}
	request = request.Clone(request.Context())
	request.URL.Path = strings.Replace(request.URL.Path, all, "/clusters/"+string(name)+"/", 1)
	request.URL.RawPath = ""
	return r.RoundTripper.RoundTrip(request)
}

// newWriter makes the client that writes to all workspaces of an endpoint. A writer for each workspace would be most of
// the memory that a workspace takes.
func newWriter(endpoint *rest.Config, scheme *runtime.Scheme) (client.Client, error) {
	cfg := rest.CopyConfig(endpoint)
	cfg.Host = strings.TrimSuffix(cfg.Host, "/") + strings.TrimSuffix(all, "/")
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return router{next} })
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	status := meta.NewDefaultRESTMapper(nil)
	status.Add(v1controller1.GroupVersion.WithKind("IPClaim"), meta.RESTScopeNamespace)
	mapper := meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{live.Mapper(), status}}
	return client.New(cfg, client.Options{HTTPClient: web, Scheme: scheme, Mapper: mapper})
}

// workspaceClient is the client of a workspace. It reads from the cache. It writes through the writer of the endpoint,
// with the verbs that the controllers use. A request with another verb names no workspace, and the router refuses it.
// Safe for concurrent use.
type workspaceClient struct {
	client.Client // the writer
	reader        client.Reader
	name          multicluster.ClusterName
}

var _ client.Client = workspaceClient{}

func (c workspaceClient) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, workspaceKey{}, c.name)
}

// Get implements client.Reader.
func (c workspaceClient) Get(
	ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
) error {
	return c.reader.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (c workspaceClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}

// Create implements client.Writer.
func (c workspaceClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return c.Client.Create(c.in(ctx), obj, opts...)
}

// Delete implements client.Writer.
func (c workspaceClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return c.Client.Delete(c.in(ctx), obj, opts...)
}

// Update implements client.Writer. It always fails, because an object of a cache has no managedFields.
func (c workspaceClient) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errUpdate
}

// Patch implements client.Writer.
func (c workspaceClient) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	return c.Client.Patch(c.in(ctx), obj, patch, opts...)
}

// Status implements client.StatusClient.
func (c workspaceClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c workspaceClient) SubResource(name string) client.SubResourceClient {
	return subresource{c.Client.SubResource(name), c}
}

// subresource is a client of a subresource in a workspace.
type subresource struct {
	client.SubResourceClient
	of workspaceClient
}

// Update implements client.SubResourceWriter. It always fails, as Update of workspaceClient does.
func (s subresource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errUpdate
}

// Patch implements client.SubResourceWriter.
func (s subresource) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
) error {
	return s.SubResourceClient.Patch(s.of.in(ctx), obj, patch, opts...)
}

// errUpdate: an object that was read from a cache must not be written back whole.
var errUpdate = errors.New("objects of workspaces are patched, never updated: a cache does not show all of them")
