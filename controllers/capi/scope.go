package capi

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
)

// Scope says which IPAddressClaims the controller serves. The zero value is all.
type Scope struct {
	// Namespace of the IPAddressClaims. Empty: any.
	Namespace string
	// Filter is the value of their label cluster.x-k8s.io/watch-filter. Empty: any, or none.
	Filter string
}

// has reports whether an IPAddressClaim is to be served.
func (s Scope) has(claim *capiv1.IPAddressClaim) bool {
	return s.reaches(claim.Namespace) && (s.Filter == "" || claim.Labels[clusterv1.WatchLabel] == s.Filter)
}

// reaches reports whether IPAddressClaims of a namespace are to be served.
func (s Scope) reaches(namespace string) bool { return s.Namespace == "" || s.Namespace == namespace }
