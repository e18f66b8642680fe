package packed

import (
	"reflect"
	"sync"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// clusterAnnotation is the annotation by which kcp names the logical cluster of an object.
const clusterAnnotation = "kcp.io/cluster"

// remembered bounds the homes, and the shapes of a kind, that a Packer remembers. Objects keep those that
// it has forgotten.
const remembered = 1 << 15

// Packer packs the objects of a cache. The zero value is ready. It is safe for concurrent use.
type Packer struct {
	mu      sync.Mutex
	homes   map[place]*home
	claims  map[claimKey]*ipamv1alpha1.IPClaim
	records map[recordKey]*ipamv1alpha1.IPAllocation
	spec    apisv1alpha1.APIBindingSpec // that of the last binding
}

type place struct{ cluster, namespace string }

// Transform is a TransformFunc of client-go: a cache calls it with each object before it keeps that. It
// removes managedFields from all objects. An object may be packed already. It returns no error.
func (p *Packer) Transform(obj any) (any, error) {
	object, ok := obj.(client.Object)
	if !ok || isPacked(obj) {
		return obj, nil
	}
	object.SetManagedFields(nil)
	switch whole := obj.(type) {
	case *ipamv1alpha1.IPClaim:
		return p.claim(whole), nil
	case *ipamv1alpha1.IPAllocation:
		return p.record(whole), nil
	case *apisv1alpha1.APIBinding:
		return p.binding(whole), nil
	}
	return obj, nil
}

// Whole is an object of a cache as it was before it was packed: a new copy of a packed object, and any
// other object itself.
func Whole(obj client.Object) client.Object {
	if isPacked(obj) {
		return obj.DeepCopyObject().(client.Object)
	}
	return obj
}

// Consumer is the consumer of an IPClaim, packed or not; nil for none. It is to be read only.
func Consumer(obj client.Object) *ipamv1alpha1.OwnerRef {
	switch c := obj.(type) {
	case *claim:
		return c.owner
	case *ipamv1alpha1.IPClaim:
		return c.Spec.OwnerRef
	}
	return nil
}

// Bound reports whether an IPClaim, packed or not, is bound.
func Bound(obj client.Object) bool {
	switch c := obj.(type) {
	case *claim:
		return c.shape.Status.Phase == ipamv1alpha1.ClaimBound
	case *ipamv1alpha1.IPClaim:
		return c.Status.Phase == ipamv1alpha1.ClaimBound
	}
	return false
}

// Allocated reports whether an IPClaim, packed or not, shows a block.
func Allocated(obj client.Object) bool {
	switch c := obj.(type) {
	case *claim:
		return c.shape.Status.AllocatedCIDR != ""
	case *ipamv1alpha1.IPClaim:
		return c.Status.AllocatedCIDR != ""
	}
	return false
}

// HeldBy is the name and UID of the claim that an IPAllocation names, packed or not, or from which it was
// retained; empty for none. retained reports that it names none any more.
func HeldBy(obj client.Object) (claim string, uid types.UID, retained bool) {
	if a, ok := obj.(*allocation); ok && a.claim != "" {
		return a.claim, a.holder.uid(), false
	}
	record, ok := Whole(obj).(*ipamv1alpha1.IPAllocation)
	if !ok {
		return "", "", false
	}
	claim, uid = record.HeldBy()
	return claim, uid, record.Spec.ClaimRef == nil
}

func isPacked(obj any) bool {
	switch obj.(type) {
	case *claim, *allocation:
		return true
	}
	return false
}

func (p *Packer) claim(c *ipamv1alpha1.IPClaim) client.Object {
	key, at := keyOfClaim(c), p.home(&c.ObjectMeta)
	p.mu.Lock()
	shape := p.claims[key]
	p.mu.Unlock()
	if shape != nil {
		if packed := newClaim(c, at, shape); reflect.DeepEqual(packed.whole(), c) {
			return packed
		}
	}
	shape = shapeOfClaim(c)
	packed := newClaim(c, at, shape)
	if !reflect.DeepEqual(packed.whole(), c) {
		return c
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = remember(p.claims, key, shape)
	return packed
}

func (p *Packer) record(r *ipamv1alpha1.IPAllocation) client.Object {
	key, at := keyOfRecord(r), p.home(&r.ObjectMeta)
	p.mu.Lock()
	shape := p.records[key]
	p.mu.Unlock()
	if shape != nil {
		if packed := newRecord(r, at, shape); reflect.DeepEqual(packed.whole(), r) {
			return packed
		}
	}
	shape = shapeOfRecord(r)
	packed := newRecord(r, at, shape)
	if !reflect.DeepEqual(packed.whole(), r) {
		return r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records = remember(p.records, key, shape)
	return packed
}

// home is that of an object.
func (p *Packer) home(meta *metav1.ObjectMeta) *home {
	key := place{cluster: meta.Annotations[clusterAnnotation], namespace: meta.Namespace}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.homes[key]; known != nil {
		return known
	}
	at := &home{namespace: key.namespace}
	if key.cluster != "" {
		at.annotations = map[string]string{clusterAnnotation: key.cluster}
	}
	p.homes = remember(p.homes, key, at)
	return at
}

// remember adds to a map, which begins empty again when it is full.
func remember[K comparable, V any](all map[K]V, key K, value V) map[K]V {
	if all == nil || len(all) >= remembered {
		all = map[K]V{}
	}
	all[key] = value
	return all
}
