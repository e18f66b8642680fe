package examples

import (
	"context"
	"errors"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// Networks says which blocks a cluster gets, by what they are for.
type Networks map[string]ipamv1alpha1.IPClaimSpec

// ClaimNetworks claims the blocks of a new cluster, all or none: if one is refused, it releases all
// blocks of the cluster. After a fault, call it again: it finds the claims that exist. Names with a
// dot keep the claims of two clusters apart, as the name of a cluster has none.
func ClaimNetworks(
	ctx context.Context, c client.WithWatch, namespace, cluster string, networks Networks,
) (map[string]netip.Prefix, error) {
	blocks := map[string]netip.Prefix{}
	for purpose, spec := range networks {
		spec.UnmetPolicy = ipamv1alpha1.UnmetRefuse // the claim is bound, or not created
		allocation, err := ipamclient.Claim(ctx, c, &ipamv1alpha1.IPClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster + "." + purpose},
			Spec:       spec,
		})
		if ipamclient.ReasonOf(err) != "" {
			return nil, errors.Join(err, ReleaseNetworks(ctx, c, namespace, cluster, networks))
		}
		if err != nil {
			return nil, err
		}
		blocks[purpose] = allocation.Prefix
	}
	return blocks, nil
}

// ReleaseNetworks gives back the blocks of a cluster, as far as it has them.
func ReleaseNetworks(ctx context.Context, c client.WithWatch, namespace, cluster string, networks Networks) error {
	errs := make([]error, 0, len(networks))
	for purpose := range networks {
		_, _, err := ipamclient.Release(ctx, c, client.ObjectKey{Namespace: namespace, Name: cluster + "." + purpose})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
