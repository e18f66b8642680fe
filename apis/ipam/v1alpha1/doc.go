// Package v1alpha1 is the API of the address service: classes of address
// space, pools to allocate from, claims for a block, and the allocations that
// record what was given.
//
// Every workspace that binds the APIExport is a consumer; the workspace that
// holds the APIExport is the platform. CIDRs, addresses and counts of addresses
// are strings on the wire, so that IPv6 needs no rounding.
//
// +kubebuilder:object:generate=true
// +groupName=ipam.miloapis.com
package v1alpha1
