package source

import (
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// Guarded is an informer whose readers never get an object that cannot be read: that is an error of its own, and no "not
// found". Lists and handlers show it as far as it is known, marked.
func Guarded(informer toolscache.SharedIndexInformer) toolscache.SharedIndexInformer {
	return guarded{informer}
}

type guarded struct{ toolscache.SharedIndexInformer }

// GetIndexer implements toolscache.SharedIndexInformer.
func (g guarded) GetIndexer() toolscache.Indexer { return Guard{g.SharedIndexInformer.GetIndexer()} }

// Guard is the indexer of [Guarded].
type Guard struct{ toolscache.Indexer }

// GetByKey implements toolscache.Store.
func (g Guard) GetByKey(key string) (any, bool, error) {
	obj, shown, err := g.Indexer.GetByKey(key)
	if object, ok := obj.(client.Object); ok && err == nil {
		err = decode.Unreadable(object)
	}
	if err != nil {
		return nil, false, err
	}
	return obj, shown, nil
}
