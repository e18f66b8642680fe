package packed

import (
	"encoding/hex"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// home is what the objects of one namespace of a logical cluster share.
type home struct {
	namespace   string
	annotations map[string]string // the one that names the logical cluster; nil without kcp
}

// identity is a UID.
type identity [16]byte

// parse reads a UID. From one in an unusual form, uid makes another text.
func parse(uid types.UID) (id identity) {
	digits := strings.ReplaceAll(string(uid), "-", "")
	_, _ = hex.Decode(id[:], []byte(digits[:min(len(digits), 2*len(id))])) // compared when it is unpacked
	return id
}

func (id identity) uid() types.UID {
	var text [36]byte
	for i, at := 0, 0; i < len(id); i++ {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at] = '-'
			at++
		}
		hex.Encode(text[at:], id[i:i+1])
		at += 2
	}
	return types.UID(text[:])
}

// head is the metadata of a packed object. It is read only.
type head struct {
	home    *home
	shared  *metav1.ObjectMeta // of its shape
	name    string
	uid     identity
	version uint64
	created int64 // seconds
	labels  map[string]string
	more    map[string]string // annotations beyond those of its home
}

// newHead takes an object's own metadata.
func newHead(at *home, meta *metav1.ObjectMeta) head {
	version, _ := strconv.ParseUint(meta.ResourceVersion, 10, 64) // compared when it is unpacked
	h := head{home: at, name: meta.Name, uid: parse(meta.UID), version: version, created: meta.CreationTimestamp.Unix(), labels: meta.Labels}
	if len(meta.Annotations) > len(at.annotations) {
		h.more = meta.Annotations
	}
	return h
}

// whole is the metadata as it was.
func (h *head) whole(meta *metav1.ObjectMeta) {
	meta.Name, meta.Namespace, meta.UID = h.name, h.home.namespace, h.uid.uid()
	meta.ResourceVersion, meta.CreationTimestamp = h.GetResourceVersion(), metav1.Unix(h.created, 0)
	meta.Labels, meta.Annotations = maps.Clone(h.labels), maps.Clone(h.GetAnnotations())
}

// blank takes an object's own metadata out of what is to be a shape.
func blank(meta *metav1.ObjectMeta) {
	meta.Name, meta.Namespace, meta.UID, meta.ResourceVersion = "", "", "", ""
	meta.CreationTimestamp, meta.Labels, meta.Annotations = metav1.Time{}, nil, nil
}

// GetObjectKind implements runtime.Object.
func (h *head) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// The getters of metav1.Object. A selfLink, which no server sets any more, is in the copy alone.

func (h *head) GetNamespace() string                          { return h.home.namespace }
func (h *head) GetName() string                               { return h.name }
func (h *head) GetUID() types.UID                             { return h.uid.uid() }
func (h *head) GetResourceVersion() string                    { return strconv.FormatUint(h.version, 10) }
func (h *head) GetCreationTimestamp() metav1.Time             { return metav1.Unix(h.created, 0) }
func (h *head) GetLabels() map[string]string                  { return h.labels }
func (h *head) GetGenerateName() string                       { return h.shared.GenerateName }
func (h *head) GetGeneration() int64                          { return h.shared.Generation }
func (h *head) GetSelfLink() string                           { return "" }
func (h *head) GetDeletionTimestamp() *metav1.Time            { return h.shared.DeletionTimestamp }
func (h *head) GetDeletionGracePeriodSeconds() *int64         { return h.shared.DeletionGracePeriodSeconds }
func (h *head) GetFinalizers() []string                       { return h.shared.Finalizers }
func (h *head) GetOwnerReferences() []metav1.OwnerReference   { return h.shared.OwnerReferences }
func (h *head) GetManagedFields() []metav1.ManagedFieldsEntry { return nil }

func (h *head) GetAnnotations() map[string]string {
	if h.more != nil {
		return h.more
	}
	return h.home.annotations
}

// The setters of metav1.Object. An object of a cache is never changed.

func (*head) SetNamespace(string)                          { panic(readOnly) }
func (*head) SetName(string)                               { panic(readOnly) }
func (*head) SetGenerateName(string)                       { panic(readOnly) }
func (*head) SetUID(types.UID)                             { panic(readOnly) }
func (*head) SetResourceVersion(string)                    { panic(readOnly) }
func (*head) SetGeneration(int64)                          { panic(readOnly) }
func (*head) SetSelfLink(string)                           { panic(readOnly) }
func (*head) SetCreationTimestamp(metav1.Time)             { panic(readOnly) }
func (*head) SetDeletionTimestamp(*metav1.Time)            { panic(readOnly) }
func (*head) SetDeletionGracePeriodSeconds(*int64)         { panic(readOnly) }
func (*head) SetLabels(map[string]string)                  { panic(readOnly) }
func (*head) SetAnnotations(map[string]string)             { panic(readOnly) }
func (*head) SetFinalizers([]string)                       { panic(readOnly) }
func (*head) SetOwnerReferences([]metav1.OwnerReference)   { panic(readOnly) }
func (*head) SetManagedFields([]metav1.ManagedFieldsEntry) { panic(readOnly) }

const readOnly = "packed: an object of a cache is read only; change a copy"
