package live

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// kindsAge is how long the list of kinds that a server offers is kept. When it is outdated, a read is
// answered with a 404 that names no object.
const kindsAge = time.Minute

// resource is how a server offers a kind.
type resource struct {
	gvk        schema.GroupVersionKind
	plural     string
	namespaced bool
}

// group names an API group at a server.
type group struct{ host, name string }

// offer is what a server offers of a group, as of then.
type offer struct {
	at    time.Time
	kinds map[string]resource
}

// resource finds how a server offers a kind: an endpoint of the export does so to all
// workspaces alike. It reports false where it does not, and for classes: tenants see those through a cache, whose word on what is gone is late.
func (o *Objects) resource(ctx context.Context, host, cluster string, kind schema.GroupKind) (resource, bool, error) {
	if cluster != "" {
		cluster = "*"
	}
	if kind.Group != "" && len(validation.IsDNS1123Subdomain(kind.Group)) > 0 {
		return resource{}, false, nil
	}
	if kind.Group == ipamv1alpha1.GroupName && kind.Kind == "IPClass" {
		return resource{}, false, nil
	}
	key := group{host, kind.Group}
	known, ok := o.kinds.Load(key)
	if !ok || time.Since(known.(offer).at) > kindsAge {
		kinds, err := o.discover(ctx, host, cluster, kind.Group)
		if elsewhere(err) {
			return resource{}, false, nil
		}
		if err != nil {
			return resource{}, false, err
		}
		known = offer{at: time.Now(), kinds: kinds}
		o.kinds.Store(key, known) // groups that exist, and there are few
	}
	found, ok := known.(offer).kinds[kind.Kind]
	return found, ok, nil
}

// discover reads what a server offers of a group, in the version that it prefers.
func (o *Objects) discover(ctx context.Context, host, cluster, name string) (map[string]resource, error) {
	cfg := o.config(host, cluster)
	c, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, o.http)
	if err != nil {
		return nil, err
	}
	version, at := "v1", "/api/v1"
	if name != "" {
		offered := &metav1.APIGroup{}
		if err := c.RESTClient().Get().AbsPath("/apis/" + name).Do(ctx).Into(offered); err != nil {
			return nil, err
		}
		version = offered.PreferredVersion.Version
		at = "/apis/" + name + "/" + version
	}
	list := &metav1.APIResourceList{}
	if err := c.RESTClient().Get().AbsPath(at).Do(ctx).Into(list); err != nil {
		return nil, err
	}
	kinds := map[string]resource{}
	for _, offered := range list.APIResources {
		if strings.Contains(offered.Name, "/") || !slices.Contains(offered.Verbs, "get") {
			continue // a subresource, or not to be read
		}
		gvk := schema.GroupVersionKind{Group: name, Version: version, Kind: offered.Kind}
		kinds[offered.Kind] = resource{gvk: gvk, plural: offered.Name, namespaced: offered.Namespaced}
	}
	return kinds, nil
}

// atKind is an uncached client that knows one kind.
func (o *Objects) atKind(host, cluster string, kind resource) (client.Client, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	scope := meta.RESTScopeRoot
	if kind.namespaced {
		scope = meta.RESTScopeNamespace
	}
	gvr := kind.gvk.GroupVersion().WithResource(kind.plural)
	mapper.AddSpecific(kind.gvk, gvr, gvr, scope)
	return client.New(o.config(host, cluster), client.Options{HTTPClient: o.http, Scheme: o.opts.Scheme, Mapper: mapper})
}
