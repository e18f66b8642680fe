// Package rights knows the roles of this API: which there are in a place, and which of them a refused
// request needs.
package rights

import (
	"slices"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Place is a kind of workspace or cluster. The zero value is an unknown one.
type Place string

const (
	// Closed is a workspace that the caller cannot enter. One that does not exist looks the same.
	Closed Place = "a workspace that you cannot enter"
	// Unbound does not serve the API.
	Unbound Place = "a workspace without the IPAM API"
	// Tenant is the workspace of a tenant.
	Tenant Place = "the workspace of a tenant"
	// Platform is the workspace of the platform.
	Platform Place = "the workspace of the platform"
	// Cluster is a cluster without kcp.
	Cluster Place = "a cluster without kcp"
)

// Find asks the server for the kind of the place. An error says that the server gave no answer.
func Find(server discovery.ServerResourcesInterface) (Place, error) {
	served, err := server.ServerResourcesForGroupVersion(ipamv1alpha1.GroupVersion.String())
	switch {
	case apierrors.IsForbidden(err):
		return Closed, nil
	case apierrors.IsNotFound(err):
		return Unbound, nil
	case err != nil:
		return "", err
	}
	at := Unbound // where kcp answers with an empty list
	for _, resource := range served.APIResources {
		switch {
		case resource.Name == "ipclasses" && slices.Contains(resource.Verbs, "create"):
			return writable(server)
		case resource.Name == "ipclaims":
			at = Tenant
		}
	}
	return at, nil
}

// writable returns the kind of a place whose classes can be written: tenants can only read them.
func writable(server discovery.ServerResourcesInterface) (Place, error) {
	_, err := server.ServerResourcesForGroupVersion(apisv1alpha2.SchemeGroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		return Cluster, nil
	case err != nil:
		return "", err
	}
	return Platform, nil
}
