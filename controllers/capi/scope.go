package capi

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// others reports whether the IPAddressClaim of an IPAddress is left to other controllers. One that
// the cache does not show is not: it may follow, as in a move.
func (r *Reconciler) others(ctx context.Context, key client.ObjectKey) (bool, error) {
	claim := &capiv1.IPAddressClaim{}
	err := r.Get(ctx, key, claim)
	if apierrors.IsNotFound(err) {
		return !r.Scope.reaches(key.Namespace), nil
	}
	return err == nil && !r.Scope.has(claim), err
}
