package wildcard

import (
	"slices"
	"strings"
	"time"

	kcpindex "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	kcpinformers "github.com/kcp-dev/apimachinery/v2/third_party/informers"
	kcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers/internal/source"
)

// newInformer makes an informer whose objects are found by their logical cluster. It has no index by
// namespace: client-go keeps a map for each value of an index, and most workspaces have few objects of a
// kind. A scoped cache requires that index by name, so there is one that stays empty. See [indexer].
func newInformer(source toolscache.ListerWatcher, obj runtime.Object, resync time.Duration) toolscache.SharedIndexInformer {
	return kcpinformers.NewSharedIndexInformer(source, obj, resync, toolscache.Indexers{
		kcpindex.ClusterIndexName:             kcpcache.ClusterIndexFunc,
		kcpindex.ClusterAndNamespaceIndexName: func(any) ([]string, error) { return nil, nil },
	})
}

// namespaced is an informer whose objects a scoped cache can list by namespace, too, and that is guarded: see
// [source.Guarded].
type namespaced struct{ toolscache.SharedIndexInformer }

// GetIndexer implements toolscache.SharedIndexInformer.
func (n namespaced) GetIndexer() toolscache.Indexer {
	return indexer{source.Guard{Indexer: n.SharedIndexInformer.GetIndexer()}}
}

// indexer finds the objects of a namespace among those of its logical cluster. No controller lists a
// namespace of a workspace, so it may take longer than an index.
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
