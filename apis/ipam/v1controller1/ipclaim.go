// Package v1controller1 is the version of IPClaim in which the controller writes its
// status. It is v1alpha1 with a status subresource.
//
// v1alpha1 has no status subresource, because a server with one drops the status of each
// CREATE. A subresource is still needed for later writes: they leave metadata.generation
// as it is, and users can be forbidden to use it. The name ranks below all names such as
// v1alpha1, so that v1alpha1 stays the version that kubectl prefers.
package v1controller1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: ipamv1alpha1.GroupName, Version: "v1controller1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &IPClaim{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
})

// AddToScheme registers every kind of this package.
var AddToScheme = schemeBuilder.AddToScheme

// IPClaim is a claim of v1alpha1 in this version. It is a type of its own because a client
// finds the version of an object by its type.
type IPClaim struct {
	ipamv1alpha1.IPClaim
}

// DeepCopyObject implements runtime.Object.
func (c *IPClaim) DeepCopyObject() runtime.Object {
	return &IPClaim{IPClaim: *c.DeepCopy()}
}
