package derived

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// object returns the IPPool of a derived pool, as it is created.
func (k *Keeper) object(ctx context.Context, p ledger.Pool) (*ipamv1alpha1.IPPool, error) {
	parent, err := k.parent(p)
	if err != nil {
		return nil, err
	}
	object := &ipamv1alpha1.IPPool{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: map[string]string{
			ipamv1alpha1.LabelProvisionedBy: ipamv1alpha1.LabelValue(p.Derived.Class),
			ipamv1alpha1.LabelScopeDigest:   ipamv1alpha1.LabelValue(ledger.Digest(p.ID)),
		}},
		Spec: ipamv1alpha1.IPPoolSpec{
			ClassRef:      &ipamv1alpha1.ClassRef{Name: p.Derived.Class},
			Scope:         resolve.APIScope(p.Derived.Scope),
			ParentPoolRef: parent,
			PrefixLength:  int32(p.CIDR.Bits()), //nolint:gosec // at most 128
			Visibility:    ipamv1alpha1.VisibilityConsumer,
		},
	}
	workspace := cmp.Or(p.Derived.Workspace, p.Derived.By)
	if namespace, ok := workspace.Namespace(); ok {
		object.Labels[ipamv1alpha1.LabelProvisionedFor] = namespace
	} else if workspace != "" {
		object.Labels[ipamv1alpha1.LabelProvisionedFor] = ipamv1alpha1.LabelValue(string(workspace))
	}
	view := k.Catalog.View(ctx)
	withhold(view, p, &object.Spec)
	return object, view.Err()
}

// withhold writes into the spec of an IPPool the prefixes that the pool never hands out. If the reservations of its
// class still give the same prefixes, it writes these reservations, else each prefix. From there, a ledger that was
// lost gets the prefixes back.
func withhold(view *catalog.View, p ledger.Pool, spec *ipamv1alpha1.IPPoolSpec) {
	if class, ok := view.Class(p.Derived.Class); ok && class.Spec.Reservations != nil {
		kept := ipamv1alpha1.IPPoolSpec{Reservations: class.Spec.Reservations.DeepCopy()}
		if excluded, err := resolve.Excluded(p.CIDR, kept); err == nil && slices.Equal(excluded, p.Excluded) {
			spec.Reservations = kept.Reservations
			return
		}
	}
	for _, excluded := range p.Excluded {
		spec.ExcludedCIDRs = append(spec.ExcludedCIDRs, ipamv1alpha1.CIDR(excluded.String()))
	}
}

// parent returns the reference to the pool above a derived pool, from the derived pool's workspace.
func (k *Keeper) parent(p ledger.Pool) (*ipamv1alpha1.PoolRef, error) {
	above, ok := k.Ledger.Pools.Get(p.Parent)
	if !ok {
		return nil, fmt.Errorf("publish pool %s: %w: its parent", p.Name, ledger.ErrUnknownPool)
	}
	ref := &ipamv1alpha1.PoolRef{Name: above.Name}
	if above.Cluster == p.Cluster {
		return ref, nil
	}
	path := k.Catalog.Directory.Workspace(above.Cluster).Path
	if path == "" {
		return nil, errors.New("publish pool " + p.Name + ": the path of its parent's workspace is not known yet")
	}
	ref.ProjectRef = &ipamv1alpha1.ProjectRef{Name: path}
	return ref, nil
}
