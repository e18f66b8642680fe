package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group, and the name of the APIExport that serves it.
const GroupName = "ipam.miloapis.com"

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers every kind of this package.
var AddToScheme = schemeBuilder.AddToScheme

// Resource qualifies a plural name with the group of this package.
func Resource(plural string) schema.GroupResource {
	return GroupVersion.WithResource(plural).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&IPClass{}, &IPClassList{},
		&IPPool{}, &IPPoolList{},
		&IPClaim{}, &IPClaimList{},
		&IPAllocation{}, &IPAllocationList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
