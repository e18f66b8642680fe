package tenants

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// Bound returns the cluster of a workspace as soon as the pools of its endpoint are cached. Get does so only when the
// claims and records of the endpoint are cached, too, which takes two minutes for a million. Until then Bound reads
// claims and records from the server. The error is [multicluster.ErrClusterNotFound] if no endpoint shows the workspace
// as bound.
func (p *Provider) Bound(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	if t := p.engaged.tenant(name); t != nil {
		return t, nil
	}
	url, bound := p.opts.Directory.Endpoint(ledger.ClusterName(name))
	e, shows := p.pooled.Load(url)
	if !bound || !shows {
		return nil, fmt.Errorf("workspace %s: %w", name, multicluster.ErrClusterNotFound)
	}
	return e.(*endpoint).early(name)
}

// early returns the cluster of a workspace that is not engaged. That cluster records no events.
func (e *endpoint) early(name multicluster.ClusterName) (cluster.Cluster, error) {
	cached, err := e.scoped(name)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	close(ended)
	t := &tenant{name: name, at: e, ended: ended}
	t.cache = early{Cache: cached, server: workspaceClient{Client: e.writer, name: name}}
	// The result has the methods of a cluster alone: Kept reads caches that may not be there yet.
	return struct{ cluster.Cluster }{t}, nil
}

// scoped returns a cache with the objects of one workspace in the endpoint's caches.
func (e *endpoint) scoped(name multicluster.ClusterName) (cache.Cache, error) {
	scoped, err := kcpcache.NewScopedCluster(e.config, logicalcluster.Name(name), e.cache, e.opts.Scheme, nil)
	if err != nil {
		return nil, fmt.Errorf("make its cluster: %w", err)
	}
	// The cache alone is kept: the clients of the cluster are 10 KiB of each workspace.
	return scoped.GetCache(), nil
}

// early reads a workspace, while only its pools are cached. Safe for concurrent use.
type early struct {
	cache.Cache
	server workspaceClient
}

// Get implements client.Reader. It returns "not found" only if a server says so of the object itself. Any other 404
// becomes another kind of error.
func (e early) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, pool := obj.(*ipamv1alpha1.IPPool); pool {
		return e.Cache.Get(ctx, key, obj, opts...)
	}
	err := e.server.Client.Get(e.server.in(ctx), key, obj, opts...)
	if !apierrors.IsNotFound(err) {
		return err
	}
	gvk, unknown := apiutil.GVKForObject(obj, e.server.Scheme())
	if unknown != nil {
		return unknown
	}
	mapping, unknown := e.server.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if unknown != nil {
		return unknown
	}
	if !absent.Object(err, mapping.Resource.Resource, key.Name) {
		//nolint:errorlint // it is no "not found" of the object
		return fmt.Errorf("workspace %s is not served at %s: %v", e.server.name, gvk.GroupVersion(), err)
	}
	return err
}

// List implements client.Reader, for pools.
func (e early) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, pools := list.(*ipamv1alpha1.IPPoolList); !pools {
		return fmt.Errorf("list %T of workspace %s: it is not cached yet", list, e.server.name)
	}
	return e.Cache.List(ctx, list, opts...)
}
