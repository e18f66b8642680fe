package wildcard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	kcpindex "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	kcpinformers "github.com/kcp-dev/apimachinery/v2/third_party/informers"
	"github.com/kcp-dev/logicalcluster/v3"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kcp-ipam/ipam/controllers/internal/source"
)

// wildcard is a cache of the objects of all logical clusters. Read it through a scoped cache of multicluster-provider.
// It is safe for concurrent use.
type wildcard struct {
	cache.Cache
	scheme *runtime.Scheme
	mapper meta.RESTMapper
}

// New makes a cache of the objects that the endpoint at cfg.Host shows. opts needs Scheme, Mapper and HTTPClient. New
// asks no server.
func New(cfg *rest.Config, opts cache.Options) (kcpcache.WildcardCache, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Host = strings.TrimSuffix(cfg.Host, "/") + "/clusters/*"
	reading := opts
	opts.NewInformer = func(
		_ toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, _ toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		return newInformer(source.Of(cfg, reading, obj), obj, resync)
	}
	all, err := cache.New(cfg, opts)
	if err != nil {
		return nil, err
	}
	return &wildcard{Cache: all, scheme: opts.Scheme, mapper: opts.Mapper}, nil
}

// GetSharedInformer implements kcpcache.WildcardCache, for typed objects and lists.
func (w *wildcard) GetSharedInformer(
	obj runtime.Object,
) (toolscache.SharedIndexInformer, schema.GroupVersionKind, meta.RESTScopeName, error) {
	gvk, err := apiutil.GVKForObject(obj, w.scheme)
	if err != nil {
		return nil, gvk, "", err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, gvk, "", err
	}
	informer, err := w.GetInformerForKind(context.Background(), gvk)
	if err != nil {
		return nil, gvk, "", err
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, gvk, "", fmt.Errorf("the informer of %s is a %T, which shares no index", gvk.Kind, informer)
	}
	return namespaced{shared}, gvk, mapping.Scope.Name(), nil
}

// IndexField implements client.FieldIndexer. A scoped cache finds the values of its workspace.
func (w *wildcard) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	return w.Cache.IndexField(ctx, obj, field, func(obj client.Object) []string {
		plain := extract(obj)
		values := make([]string, len(plain))
		for i, value := range plain {
			values[i] = logicalcluster.From(obj).String() + "/" + value
		}
		return values
	})
}

// newInformer makes an informer whose objects are indexed by their logical cluster. A scoped cache also requires an
// index by namespace. That index exists, and stays empty: client-go keeps a map for each value of an index, and most
// workspaces have few objects of a kind. See [indexer].
func newInformer(
	source toolscache.ListerWatcher, obj runtime.Object, resync time.Duration,
) toolscache.SharedIndexInformer {
	return kcpinformers.NewSharedIndexInformer(source, obj, resync, toolscache.Indexers{
		kcpindex.ClusterIndexName:             kcpcache.ClusterIndexFunc,
		kcpindex.ClusterAndNamespaceIndexName: func(any) ([]string, error) { return nil, nil },
	})
}

// namespaced is an informer that is guarded, see [source.Guarded], and whose objects a scoped cache can also list by
// namespace.
type namespaced struct{ toolscache.SharedIndexInformer }

// GetIndexer implements toolscache.SharedIndexInformer.
func (n namespaced) GetIndexer() toolscache.Indexer {
	return indexer{source.Guard{Indexer: n.SharedIndexInformer.GetIndexer()}}
}

// indexer finds the objects of a namespace among the objects of its logical cluster. That may take longer than an
// index, because no controller lists a namespace of a workspace.
type indexer struct{ source.Guard }

// ByIndex implements toolscache.Indexer.
func (i indexer) ByIndex(name, value string) ([]any, error) {
	if name != kcpindex.ClusterAndNamespaceIndexName {
		return i.Guard.ByIndex(name, value)
	}
	cluster, namespace, _ := strings.Cut(value, "/")
	all, err := i.Guard.ByIndex(kcpindex.ClusterIndexName, cluster)
	return slices.DeleteFunc(all, func(obj any) bool { return obj.(client.Object).GetNamespace() != namespace }), err
}
