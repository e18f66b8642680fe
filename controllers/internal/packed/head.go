package packed

import (
	"maps"
	"net/netip"
	"strconv"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// home has the values that the objects of one namespace of a logical cluster share.
type home struct {
	namespace   string
	annotations map[string]string // the annotation that names the logical cluster; nil without kcp
}

// parse reads a UID. Of a UID in an unusual form, text returns another form.
func parse(id types.UID) uuid.UUID {
	read, _ := uuid.Parse(string(id)) // pack compares what it unpacks
	return read
}

// text writes the UID that parse has read; empty for the zero UUID.
func text(id uuid.UUID) types.UID {
	if id == uuid.Nil {
		return ""
	}
	return types.UID(id.String())
}

// head is the metadata of a packed object, and its shape. It is read only. It has few pointers, because the garbage
// collector follows each of them, in millions of objects.
type head[S client.Object] struct {
	readOnly
	home    *home
	shape   S
	name    string
	uid     uuid.UUID
	version uint64
	created int64   // seconds
	rare    *rarity // nil: none
}

// rarity has values that only few objects have.
type rarity struct {
	labels      map[string]string
	annotations map[string]string      // all, if the object has more than its home; nil: it has those of its home
	owner       *ipamv1alpha1.OwnerRef // the consumer that the object names; nil for none
}

// newHead returns the head of an object: the metadata that each object has for itself, and the consumer that the object
// names.
func newHead[S client.Object](at *home, shape S, meta *metav1.ObjectMeta, owner *ipamv1alpha1.OwnerRef) head[S] {
	version, _ := strconv.ParseUint(meta.ResourceVersion, 10, 64) // pack compares what it unpacks
	h := head[S]{
		home: at, shape: shape, name: meta.Name, uid: parse(meta.UID), version: version,
		created: meta.CreationTimestamp.Unix(),
	}
	r := rarity{labels: meta.Labels, owner: owner}
	if len(meta.Annotations) > len(at.annotations) {
		r.annotations = meta.Annotations
	}
	if r.labels != nil || r.annotations != nil || owner != nil {
		h.rare = &r
	}
	return h
}

// whole restores the metadata as it was before the object was packed.
func (h *head[S]) whole(meta *metav1.ObjectMeta) {
	meta.Name, meta.Namespace, meta.UID = h.name, h.home.namespace, types.UID(h.uid.String())
	meta.ResourceVersion, meta.CreationTimestamp = h.GetResourceVersion(), metav1.Unix(h.created, 0)
	meta.Labels, meta.Annotations = maps.Clone(h.GetLabels()), maps.Clone(h.GetAnnotations())
}

// owner returns the consumer that the object names; nil for none.
func (h *head[S]) owner() *ipamv1alpha1.OwnerRef {
	if h.rare == nil {
		return nil
	}
	return h.rare.owner
}

// blank removes from a future shape the metadata that each object has for itself.
func blank(meta *metav1.ObjectMeta) {
	meta.Name, meta.Namespace, meta.UID, meta.ResourceVersion = "", "", "", ""
	meta.CreationTimestamp, meta.Labels, meta.Annotations = metav1.Time{}, nil, nil
}

// GetObjectKind implements runtime.Object.
func (h *head[S]) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// The getters of metav1.Object. Only the unpacked copy has a selfLink, which no server sets any more.

func (h *head[S]) GetNamespace() string               { return h.home.namespace }
func (h *head[S]) GetName() string                    { return h.name }
func (h *head[S]) GetUID() types.UID                  { return types.UID(h.uid.String()) }
func (h *head[S]) GetResourceVersion() string         { return strconv.FormatUint(h.version, 10) }
func (h *head[S]) GetCreationTimestamp() metav1.Time  { return metav1.Unix(h.created, 0) }
func (h *head[S]) GetGenerateName() string            { return h.shape.GetGenerateName() }
func (h *head[S]) GetGeneration() int64               { return h.shape.GetGeneration() }
func (h *head[S]) GetSelfLink() string                { return "" }
func (h *head[S]) GetDeletionTimestamp() *metav1.Time { return h.shape.GetDeletionTimestamp() }
func (h *head[S]) GetDeletionGracePeriodSeconds() *int64 {
	return h.shape.GetDeletionGracePeriodSeconds()
}
func (h *head[S]) GetFinalizers() []string                       { return h.shape.GetFinalizers() }
func (h *head[S]) GetOwnerReferences() []metav1.OwnerReference   { return h.shape.GetOwnerReferences() }
func (h *head[S]) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }

func (h *head[S]) GetLabels() map[string]string {
	if h.rare == nil {
		return nil
	}
	return h.rare.labels
}

func (h *head[S]) GetAnnotations() map[string]string {
	if h.rare != nil && h.rare.annotations != nil {
		return h.rare.annotations
	}
	return h.home.annotations
}

// readOnly has the setters of metav1.Object. They panic, because an object of a cache must not be changed.
type readOnly struct{}

func (readOnly) SetNamespace(string)                          { panic(changed) }
func (readOnly) SetName(string)                               { panic(changed) }
func (readOnly) SetGenerateName(string)                       { panic(changed) }
func (readOnly) SetUID(types.UID)                             { panic(changed) }
func (readOnly) SetResourceVersion(string)                    { panic(changed) }
func (readOnly) SetGeneration(int64)                          { panic(changed) }
func (readOnly) SetSelfLink(string)                           { panic(changed) }
func (readOnly) SetCreationTimestamp(metav1.Time)             { panic(changed) }
func (readOnly) SetDeletionTimestamp(*metav1.Time)            { panic(changed) }
func (readOnly) SetDeletionGracePeriodSeconds(*int64)         { panic(changed) }
func (readOnly) SetLabels(map[string]string)                  { panic(changed) }
func (readOnly) SetAnnotations(map[string]string)             { panic(changed) }
func (readOnly) SetFinalizers([]string)                       { panic(changed) }
func (readOnly) SetOwnerReferences([]metav1.OwnerReference)   { panic(changed) }
func (readOnly) SetManagedFields([]metav1.ManagedFieldsEntry) { panic(changed) }

const changed = "packed: an object of a cache is read only; change a copy"

// block is a prefix, without the pointer in a [netip.Prefix].
type block struct {
	addr   [16]byte
	length uint8 // of the prefix
	family uint8 // 4 or 6; 0: there is none
}

// parseBlock reads a prefix. If the text is not in the usual form, prefix returns another text.
func parseBlock(cidr string) block {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return block{} // pack compares what it unpacks
	}
	b := block{addr: p.Addr().As16(), length: uint8(p.Bits()), family: 6}
	if p.Addr().Is4() {
		b.family = 4
	}
	return b
}

// prefix returns the block; the zero Prefix if there is none.
func (b block) prefix() netip.Prefix {
	addr := netip.AddrFrom16(b.addr)
	switch b.family {
	case 0:
		return netip.Prefix{}
	case 4:
		addr = addr.Unmap()
	}
	return netip.PrefixFrom(addr, int(b.length))
}
