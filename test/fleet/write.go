package fleet

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"
)

// write creates, changes or deletes an object. Events are accepted, and not stored.
func (s *Server) write(w http.ResponseWriter, r *http.Request, q request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	if q.plural == "events" {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
		return
	}
	if r.Header.Get("Content-Type") == runtime.ContentTypeProtobuf { // of a Lease
		if body, err = toJSON(body); err != nil {
			refuse(w, apierrors.NewBadRequest(err.Error()))
			return
		}
	}
	code := http.StatusOK
	var after []byte
	var refusal *apierrors.StatusError
	dry := r.URL.Query().Get("dryRun") != ""
	switch r.Method {
	case http.MethodPost:
		code = http.StatusCreated
		after, refusal = s.create(q, body)
	case http.MethodPatch, http.MethodPut:
		after, refusal = s.change(q, r.Method, body, dry)
		if apply := r.Header.Get("Content-Type") == string(types.ApplyPatchType); apply && apierrors.IsNotFound(refusal) {
			after, refusal = s.create(q, body)
		}
	case http.MethodDelete:
		after, refusal = s.remove(q, body)
	default:
		refusal = apierrors.NewMethodNotSupported(schema.GroupResource{Group: q.group, Resource: q.plural}, r.Method)
	}
	if refusal != nil {
		refuse(w, refusal)
		return
	}
	raw(w, code, q.in(after))
}

// toJSON returns an object of Kubernetes as JSON. client-go has sent it as protobuf.
func toJSON(body []byte) ([]byte, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

func parseObject(body []byte) (*unstructured.Unstructured, *apierrors.StatusError) {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &object.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return object, nil
}

// commit stores an object at the next revision, and notifies the watches.
func (s *Server) commit(q request, p place, kind string, object *unstructured.Unstructured) []byte {
	s.revision++
	object.SetResourceVersion(strconv.FormatInt(s.revision, 10))
	object.SetAPIVersion(q.apiVersion(q.versions[0]))
	text, _ := json.Marshal(object.Object) // it came from JSON
	stored := text
	if kind == "DELETED" {
		stored = nil
	}
	q.put(p, stored, event{revision: s.revision, kind: kind, place: p, object: text})
	return text
}

func (s *Server) create(q request, body []byte) ([]byte, *apierrors.StatusError) {
	object, refusal := parseObject(body)
	if refusal != nil {
		return nil, refusal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := place{q.cluster, q.namespace, object.GetName()}
	if _, ok := q.get(p); ok {
		return nil, exists(q.kind, p.name)
	}
	object.SetKind(q.kind.name)
	object.SetNamespace(q.namespace)
	object.SetUID(uuid.NewUUID())
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(time.Now()))
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["kcp.io/cluster"] = p.cluster
	object.SetAnnotations(annotations)
	return s.commit(q, p, "ADDED", object), nil
}

// change patches or replaces an object. A resourceVersion in the body must be that of the object.
func (s *Server) change(q request, method string, body []byte, dry bool) ([]byte, *apierrors.StatusError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := q.get(q.place())
	if !ok {
		return nil, notFound(q.kind, q.name)
	}
	wanted, refusal := parseObject(body)
	if refusal != nil {
		return nil, refusal
	}
	before, refusal := parseObject(stored)
	if refusal != nil {
		return nil, refusal
	}
	if version := wanted.GetResourceVersion(); version != "" && version != before.GetResourceVersion() {
		return nil, conflict(q.kind, q.name)
	}
	if method == http.MethodPatch {
		merged, err := jsonpatch.MergePatch(stored, body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if wanted, refusal = parseObject(merged); refusal != nil {
			return nil, refusal
		}
	}
	after := q.keep(before, wanted)
	if dry || equality.Semantic.DeepEqual(before.Object, after.Object) {
		return stored, nil
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		return s.commit(q, q.place(), "DELETED", after), nil
	}
	return s.commit(q, q.place(), "MODIFIED", after), nil
}

// keep returns the object with those changes that the request may make: with its subresource the status, without one
// all else.
func (q request) keep(before, wanted *unstructured.Unstructured) *unstructured.Unstructured {
	after := before.DeepCopy()
	if q.subresource == "status" {
		after.Object["status"] = wanted.Object["status"]
		return after
	}
	status, had := before.Object["status"]
	after.Object = wanted.Object
	after.SetAPIVersion(before.GetAPIVersion())
	after.SetUID(before.GetUID())
	after.SetResourceVersion(before.GetResourceVersion())
	if q.serves(q.version, "status") {
		delete(after.Object, "status")
		if had {
			after.Object["status"] = status
		}
	}
	if !equality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"]) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	return after
}

// remove deletes an object, or marks it as being deleted while it has finalizers.
func (s *Server) remove(q request, body []byte) ([]byte, *apierrors.StatusError) {
	options := &metav1.DeleteOptions{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stored, ok := q.get(q.place())
	if !ok {
		return nil, notFound(q.kind, q.name)
	}
	object, refusal := parseObject(stored)
	if refusal != nil {
		return nil, refusal
	}
	if must := options.Preconditions; must != nil {
		switch {
		case must.UID != nil && *must.UID != object.GetUID():
			return nil, mismatch(q.kind, q.name, "UID in precondition: "+string(*must.UID)+", UID in object meta: "+string(object.GetUID()))
		case must.ResourceVersion != nil && *must.ResourceVersion != object.GetResourceVersion():
			return nil, mismatch(q.kind, q.name, "ResourceVersion in precondition: "+*must.ResourceVersion+", ResourceVersion in object meta: "+object.GetResourceVersion())
		}
	}
	if len(object.GetFinalizers()) == 0 {
		return s.commit(q, q.place(), "DELETED", object), nil
	}
	if object.GetDeletionTimestamp() == nil {
		object.SetDeletionTimestamp(new(metav1.Now()))
		return s.commit(q, q.place(), "MODIFIED", object), nil
	}
	return stored, nil
}
