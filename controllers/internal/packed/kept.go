package packed

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// Reader gives the object of a kind as a cache keeps it, to be read only; nil if the cache does not show it. What names
// the kind stays as it is.
type Reader = func(kind client.Object, key client.ObjectKey) (client.Object, error)

// keeper is a cluster that gives objects as its cache keeps them.
type keeper interface {
	Kept(kind client.Object, key client.ObjectKey) (client.Object, error)
}

// Kept reads a cluster's cache without copies where it can. It is for readers of so many objects that
// copies would be most of the cost. The cache of the platform's workspace gives only copies.
func Kept(ctx context.Context, cl cluster.Cluster) Reader {
	if k, ok := cl.(keeper); ok {
		return k.Kept
	}
	reader := cl.GetCache()
	return func(kind client.Object, key client.ObjectKey) (client.Object, error) {
		obj := kind.DeepCopyObject().(client.Object)
		err := reader.Get(ctx, key, obj)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return obj, err
	}
}
