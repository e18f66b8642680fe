package packed

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"sync"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// clusterAnnotation is the annotation by which kcp names the logical cluster of an object.
const clusterAnnotation = "kcp.io/cluster"

const (
	// remembered bounds the number of homes, and of shapes of a kind, that a Packer remembers. Objects keep the homes and
	// shapes that the Packer has forgotten.
	remembered = 1 << 15
	// rememberedBytes bounds the size of a kind's shapes, as JSON. A tenant can change a claim with a long spec as often
	// as it likes, and each generation has another shape.
	rememberedBytes = 32 << 20
)

// Packer packs the objects of a cache. The zero value is ready. It is safe for concurrent use.
type Packer struct {
	mu       sync.Mutex
	homes    map[place]*home
	claims   shapes[claimKey, *ipamv1alpha1.IPClaim]
	records  shapes[recordKey, *ipamv1alpha1.IPAllocation]
	bindings shapes[bindingKey, *apisv1alpha2.APIBinding]
}

type place struct{ cluster, namespace string }

// Transform returns an object as a cache is to keep it, without the metadata that no controller reads. A cache calls
// it, as a TransformFunc of client-go, before it keeps an object. An object that is packed already stays as it is.
// Transform never fails.
func (p *Packer) Transform(obj any) (any, error) {
	object, ok := obj.(client.Object)
	if !ok || isPacked(obj) {
		return obj, nil
	}
	strip(object)
	switch whole := obj.(type) {
	case *ipamv1alpha1.IPClaim:
		return p.claim(whole), nil
	case *ipamv1alpha1.IPAllocation:
		return p.record(whole), nil
	case *apisv1alpha2.APIBinding:
		return p.binding(whole), nil
	}
	return obj, nil
}

// Whole returns an object of a cache as it was before it was packed: a new copy of a packed object, and any
// other object itself.
func Whole(obj client.Object) client.Object {
	if isPacked(obj) {
		return obj.DeepCopyObject().(client.Object)
	}
	return obj
}

// Consumer returns the consumer of an IPClaim, packed or not; nil for none. It must not be changed.
func Consumer(obj client.Object) *ipamv1alpha1.OwnerRef {
	switch c := obj.(type) {
	case *claim:
		return c.owner()
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

// AllocationID returns the allocation ID of an IPClaim, packed or not; empty if it shows none.
func AllocationID(obj client.Object) types.UID {
	switch c := obj.(type) {
	case *claim:
		return text(c.allocation)
	case *ipamv1alpha1.IPClaim:
		return c.Status.AllocationID
	}
	return ""
}

// HeldBy returns the name and allocation ID of the claim that an IPAllocation names, or from which it was retained;
// both are empty if there is none. The IPAllocation may be packed. retained reports whether the IPAllocation was
// retained.
func HeldBy(obj client.Object) (claim string, uid types.UID, retained bool) {
	if a, ok := obj.(*allocation); ok && a.claim != "" {
		return a.claim, cmp.Or(text(a.given), types.UID(a.holder.String())), false
	}
	record, ok := Whole(obj).(*ipamv1alpha1.IPAllocation)
	if !ok {
		return "", "", false
	}
	claim, _ = record.HeldBy()
	return claim, record.AllocationID(), record.Spec.ClaimRef == nil
}

func isPacked(obj any) bool {
	switch obj.(type) {
	case *claim, *allocation, *binding:
		return true
	}
	return false
}

func (p *Packer) claim(c *ipamv1alpha1.IPClaim) client.Object {
	at := p.home(&c.ObjectMeta)
	by := func(shape *ipamv1alpha1.IPClaim) kept[*ipamv1alpha1.IPClaim] { return newClaim(c, at, shape) }
	return pack(p, &p.claims, keyOfClaim(c), c, shapeOfClaim, by)
}

func (p *Packer) record(r *ipamv1alpha1.IPAllocation) client.Object {
	at := p.home(&r.ObjectMeta)
	by := func(shape *ipamv1alpha1.IPAllocation) kept[*ipamv1alpha1.IPAllocation] {
		return newRecord(r, at, shape)
	}
	return pack(p, &p.records, keyOfRecord(r), r, shapeOfRecord, by)
}

func (p *Packer) binding(b *apisv1alpha2.APIBinding) client.Object {
	b = reduced(b)
	by := func(shape *apisv1alpha2.APIBinding) kept[*apisv1alpha2.APIBinding] { return newBinding(b, shape) }
	return pack(p, &p.bindings, keyOfBinding(b), b, shapeOfBinding, by)
}

// kept is a packed object of a kind.
type kept[T any] interface {
	client.Object
	whole() T
}

// pack packs an object by the shape of the objects with its key, or else by its own shape. If unpacking does not return
// the same object, pack returns it unpacked.
func pack[K comparable, T client.Object](
	p *Packer, of *shapes[K, T], key K, object T, shapeOf func(T) T, by func(shape T) kept[T],
) client.Object {
	p.mu.Lock()
	shape, known := of.byKey[key]
	p.mu.Unlock()
	if known {
		if packed := by(shape); reflect.DeepEqual(packed.whole(), object) {
			return packed
		}
	}
	shape = shapeOf(object)
	packed := by(shape)
	if !reflect.DeepEqual(packed.whole(), object) {
		return object
	}
	raw, err := json.Marshal(shape)
	if err != nil {
		return packed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of.remember(key, shape, len(raw))
	return packed
}

// shapes has the shapes of a kind that a Packer remembers. The zero value has none.
type shapes[K comparable, T any] struct {
	byKey map[K]T
	bytes int // size of the shapes that were added since byKey was empty
}

// remember adds a shape of so many bytes.
func (s *shapes[K, T]) remember(key K, shape T, bytes int) {
	if s.bytes += bytes; len(s.byKey) >= remembered || s.bytes > rememberedBytes {
		s.byKey, s.bytes = nil, bytes
	}
	s.byKey = remember(s.byKey, key, shape)
}

// home returns the home of an object.
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

// remember adds to a map. When the map is full, it begins with an empty one.
func remember[K comparable, V any](all map[K]V, key K, value V) map[K]V {
	if all == nil || len(all) >= remembered {
		all = map[K]V{}
	}
	all[key] = value
	return all
}

// Reader returns an object as a cache keeps it; nil if the cache does not show it. The object must not be changed. kind
// names the kind, and is not changed.
type Reader = func(kind client.Object, key client.ObjectKey) (client.Object, error)

// keeper is a cluster that returns objects as its cache keeps them.
type keeper interface {
	Kept(kind client.Object, key client.ObjectKey) (client.Object, error)
}

// Kept returns a Reader of a cluster's cache that makes no copies, if the cluster can do so. It is for callers that
// read so many objects that copies would be most of the cost. The cache of the platform's workspace returns only
// copies.
func Kept(ctx context.Context, cl cluster.Cluster) Reader {
	if k, ok := cl.(keeper); ok {
		return k.Kept
	}
	reader := cl.GetCache()
	return func(kind client.Object, key client.ObjectKey) (client.Object, error) {
		obj := kind.DeepCopyObject().(client.Object)
		err := reader.Get(ctx, key, obj)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return obj, err
	}
}
