package simkcp

import (
	"encoding/json"
	"fmt"
	"sort"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Object is an object and its logical cluster.
type Object struct {
	Cluster string
	*unstructured.Unstructured
}

// text returns an object as JSON.
func text(o *unstructured.Unstructured) []byte {
	b, err := json.Marshal(o.Object)
	if err != nil {
		panic(err)
	}
	return b
}

// read parses JSON with whole numbers as int64, which GetGeneration needs.
func read(b []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	return o, utiljson.Unmarshal(b, &o.Object)
}

// received parses the JSON of a request, and drops null and unknown fields from the metadata.
func received(b []byte) (*unstructured.Unstructured, error) {
	o, err := read(b)
	if err != nil {
		return nil, err
	}
	return o, coerce(o)
}

// coerce drops null and unknown fields from an object's metadata.
func coerce(o *unstructured.Unstructured) error {
	meta, ok, err := objectmeta.GetObjectMeta(o.Object, false)
	if err != nil || !ok {
		return err
	}
	return objectmeta.SetObjectMeta(o.Object, meta)
}

// parsed keeps parsed objects: the same bytes are soon parsed again, many times.
var parsed = newMemory[*unstructured.Unstructured](2000)

// parse returns an object that the world has stored.
func parse(b []byte) *unstructured.Unstructured {
	known := parsed.get(b, func() *unstructured.Unstructured {
		o, err := read(b)
		if err != nil {
			panic(err)
		}
		return o
	})
	return known.DeepCopy()
}

// dried returns the answer to a dry run. Only objects that are stored carry the annotation of their cluster.
func dried(o *unstructured.Unstructured) []byte {
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", logicalcluster.AnnotationKey)
	if len(o.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
	}
	return text(o)
}

// annotate sets an annotation.
func annotate(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// Brief returns an object in a line.
func Brief(o *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	cidr, _, _ := unstructured.NestedString(o.Object, "status", "allocatedCIDR")
	holder, _, _ := unstructured.NestedString(o.Object, "spec", "claimRef", "name")
	line := fmt.Sprintf("uid=%s rv=%s %s %s", o.GetUID(), o.GetResourceVersion(), phase, cidr)
	if holder != "" {
		uid, _, _ := unstructured.NestedString(o.Object, "spec", "claimRef", "uid")
		line += " of " + holder + " " + uid
	}
	if o.GetDeletionTimestamp() != nil {
		line += " deleting"
	}
	return line
}

// All returns all objects of a resource of the project or of kcp, in all workspaces, by cluster, namespace and name.
func (w *World) All(plural string) (all []Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, group := range []string{ipamGroup, kcpGroup} {
		t := w.tables[group+"/"+plural]
		if t == nil {
			continue
		}
		for p, b := range t.objects {
			all = append(all, Object{p.cluster, parse(b)})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].place().key() < all[j].place().key() })
	return all
}

// Find returns an object of a resource of the project; nil: it is not there.
func (w *World) Find(plural, cluster, namespace, name string) *Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := w.tables[ipamGroup+"/"+plural].objects[place{cluster, namespace, name}]
	if !ok {
		return nil
	}
	return &Object{cluster, parse(b)}
}

func (o Object) place() place { return place{o.Cluster, o.GetNamespace(), o.GetName()} }
