package live

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// Objects asks for objects of any kind. Reader is required. It is safe for concurrent use.
type Objects struct {
	*Reader
	kinds sync.Map // group → offer; what servers offer, which changes seldom
}

// Ref names an object by its kind, of any version. A user has written it, so it may be anything.
type Ref struct {
	Kind schema.GroupKind
	// Namespace is empty for an object without one.
	Namespace string
	Name      string
}

// Sight is what the servers say of an object of any kind.
type Sight struct {
	// Verdict is Alive, Gone, Hidden or Unknown.
	Verdict Verdict
	// Object is what was read, if it is Alive.
	Object *unstructured.Unstructured
	// Proven, of Gone: the server has shown that it would show such an object. Of a
	// kind that the export is only permitted to see it filters by a label of kcp's,
	// and an object whose label is missing looks the same as one that is gone.
	Proven bool
}

// Object asks whether an object of any kind exists. It is Hidden where the controller
// may not read that kind: in a workspace that is one which the export neither offers
// nor was permitted to see whole, on the platform one that its roles do not name. An
// error comes with the verdict Unknown.
func (o *Objects) Object(ctx context.Context, cluster ledger.ClusterName, ref Ref) (Sight, error) {
	if cluster == o.opts.Platform {
		sight, _, err := o.objectAt(ctx, o.opts.Config.Host, "", ref)
		sight.Proven = true
		return sight, err
	}
	seen, err := o.endpoints.get(ctx)
	if err != nil {
		return Sight{}, err
	}
	var hidden atomic.Bool
	sight, ok, err := first(ctx, seen.urls, func(ctx context.Context, endpoint string) (Sight, bool, error) {
		sight, ok, err := o.objectBound(ctx, endpoint, cluster, ref)
		if sight.Verdict == Hidden && !ok {
			hidden.Store(true)
		}
		return sight, ok, err
	})
	if !ok && err == nil && hidden.Load() {
		return Sight{Verdict: Hidden}, nil
	}
	return sight, err
}

// objectBound reads the object at one endpoint. ok reports whether the answer is definite.
// That a kind is not offered is not: another endpoint may offer it.
func (o *Objects) objectBound(ctx context.Context, endpoint string, cluster ledger.ClusterName, ref Ref) (sight Sight, ok bool, err error) {
	sight, kind, err := o.objectAt(ctx, endpoint, string(cluster), ref)
	if err != nil || sight.Verdict == Alive || kind.plural == "" {
		return sight, sight.Verdict == Alive, err
	}
	here, err := o.grants(ctx, endpoint, cluster)
	if elsewhere(err) || err == nil && !here.bound {
		return Sight{}, false, nil
	}
	if err != nil || sight.Verdict != Gone {
		return sight, err == nil, err
	}
	sight, err = o.prove(ctx, endpoint, cluster, kind, here)
	return sight, err == nil, err
}

// objectAt reads the object at one server. As for a holder, only a 404 that names it
// says that it is gone.
func (o *Objects) objectAt(ctx context.Context, host, cluster string, ref Ref) (Sight, resource, error) {
	kind, ok, err := o.resource(ctx, host, cluster, ref.Kind)
	if err != nil {
		return Sight{}, resource{}, err
	}
	if !ok || kind.namespaced != (ref.Namespace != "") || len(content.IsPathSegmentName(ref.Name)) > 0 {
		return Sight{Verdict: Hidden}, resource{}, nil
	}
	sight, err := o.read(ctx, host, cluster, kind, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
	return sight, kind, err
}

// read reads an object of a kind that one server offers.
func (o *Objects) read(ctx context.Context, host, cluster string, kind resource, key client.ObjectKey) (Sight, error) {
	c, err := o.atKind(host, cluster, kind)
	if err != nil {
		return Sight{}, err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind.gvk)
	err = c.Get(ctx, key, obj)
	switch {
	case err == nil:
		return Sight{Verdict: Alive, Object: obj}, nil
	case absent.Object(err, kind.plural, key.Name):
		return Sight{Verdict: Gone}, nil
	case elsewhere(err), apierrors.IsMethodNotSupported(err):
		return Sight{Verdict: Hidden}, nil
	default:
		return Sight{}, err
	}
}

// prove tells what is gone from what the export no longer sees.
func (o *Objects) prove(ctx context.Context, endpoint string, cluster ledger.ClusterName, kind resource, here grants) (Sight, error) {
	if kind.gvk.Group == ipamv1alpha1.GroupName {
		return Sight{Verdict: Gone, Proven: true}, nil
	}
	if !here.whole[schema.GroupResource{Group: kind.gvk.Group, Resource: kind.plural}] {
		return Sight{Verdict: Hidden}, nil
	}
	c, err := o.atKind(endpoint, string(cluster), kind)
	if err != nil {
		return Sight{}, err
	}
	others := &unstructured.UnstructuredList{}
	others.SetGroupVersionKind(kind.gvk)
	if err := c.List(ctx, others, client.Limit(1)); err != nil {
		return Sight{}, fmt.Errorf("list %s of %s: %w", kind.plural, cluster, err)
	}
	return Sight{Verdict: Gone, Proven: len(others.Items) > 0}, nil
}

// grants are what a workspace lets the export see.
type grants struct {
	bound bool
	whole map[schema.GroupResource]bool // kinds of others: it may see every object of them
}

// grants reads the workspace's binding at an endpoint.
func (o *Objects) grants(ctx context.Context, endpoint string, cluster ledger.ClusterName) (grants, error) {
	c, err := o.at(endpoint, string(cluster))
	if err != nil {
		return grants{}, err
	}
	list := &apisv1alpha2.APIBindingList{}
	if err := c.List(ctx, list); err != nil {
		return grants{}, fmt.Errorf("list bindings of %s at %s: %w", cluster, endpoint, err)
	}
	found := grants{whole: map[schema.GroupResource]bool{}}
	for i := range list.Items {
		binding := &list.Items[i]
		if logicalcluster.From(binding) != logicalcluster.Name(cluster) || !binding.DeletionTimestamp.IsZero() {
			continue
		}
		found.bound = true
		for _, applied := range binding.Status.AppliedPermissionClaims {
			if accepts(binding, applied.PermissionClaim) && applied.Selector.MatchAll {
				found.whole[schema.GroupResource{Group: applied.Group, Resource: applied.Resource}] = true
			}
		}
	}
	return found, nil
}

// accepts reports whether a binding accepts a permission, for every object of its kind.
func accepts(binding *apisv1alpha2.APIBinding, asked apisv1alpha2.PermissionClaim) bool {
	for _, answer := range binding.Spec.PermissionClaims {
		if answer.EqualGRI(asked) {
			return answer.State == apisv1alpha2.ClaimAccepted && answer.Selector.MatchAll
		}
	}
	return false
}

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
		if err != nil {
			return resource{}, false, ignoreElsewhere(err)
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
