package capi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// Server is an API server, and a cache of its objects. Safe for concurrent use.
type Server struct {
	// Client reads from the cache. Required.
	client.Client
	// Live reads from the API server. Required.
	Live client.Reader
}

// Management is the management cluster. It has the IPAddressClaims, their IPAddresses, and the Clusters of the claims.
// Safe for concurrent use.
type Management struct {
	// Server is that of the management cluster. Required.
	Server
	// Scope says which IPAddressClaims are served. Default: all.
	Scope Scope
}

// Claims has the IPClaims of a management cluster, and the IPPools and IPClasses that they name. They are in that
// cluster, or in a workspace. Safe for concurrent use.
type Claims struct {
	// Server is that of the cluster or workspace. Required.
	Server
	// Names say which IPClaim is that of an IPAddressClaim.
	Names Names
}

// resource returns the name by which servers speak of the objects of a kind.
func resource(object client.Object) string {
	switch object.(type) {
	case *capiv1.IPAddressClaim:
		return "ipaddressclaims"
	case *capiv1.IPAddress:
		return "ipaddresses"
	case *ipamv1alpha1.IPClaim:
		return "ipclaims"
	default:
		panic(fmt.Sprintf("%T is never asked for", object))
	}
}

// shown reads an object from a cache; nil if the object is not there.
func shown[T client.Object](
	ctx context.Context, cache client.Reader, key client.ObjectKey, object T,
) (found T, err error) {
	err = cache.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("read %T %s: %w", object, key, err)
	}
	return object, nil
}

// gone asks the API server, and no cache, whether there is no such object. If the object exists, gone reads it into
// object. If the server does not serve the resource, gone returns an error.
func (s Server) gone(ctx context.Context, key client.ObjectKey, object client.Object) (bool, error) {
	err := s.Live.Get(ctx, key, object)
	if absent.Object(err, resource(object), key.Name) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s: %w", object, key, err)
	}
	return false, nil
}

// remove deletes an object in the version that was read, and reports whether it is gone.
func (s Server) remove(ctx context.Context, object client.Object) (gone bool, err error) {
	uid := object.GetUID()
	err = s.Delete(ctx, object, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete %s: %w", object.GetName(), err)
	}
	return s.gone(ctx, client.ObjectKeyFromObject(object), object)
}

// Identify reads the identity of a management cluster: the UID of its namespace kube-system, which lasts as long as the
// cluster, and is also in the backups of the cluster.
func Identify(ctx context.Context, cluster client.Reader) (types.UID, error) {
	namespace := &corev1.Namespace{}
	if err := cluster.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("read namespace %s, whose UID names the management cluster: %w", metav1.NamespaceSystem, err)
	}
	return namespace.UID, nil
}
