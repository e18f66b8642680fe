package simkcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// request is a parsed URL.
type request struct {
	*table
	scope
	version, name, subresource string
	user                       string
	dry                        bool
	terminating                bool // the binding is being deleted: nothing is created
}

func (q request) place() place { return place{q.cluster, q.namespace, q.name} }

// in returns a stored object in the version of the request.
func (q request) in(object []byte) []byte {
	if q.version == q.versions[0] {
		return object
	}
	stored, asked := `"`+q.apiVersion(q.versions[0])+`"`, `"`+q.apiVersion(q.version)+`"`
	return []byte(strings.Replace(string(object), `{"apiVersion":`+stored, `{"apiVersion":`+asked, 1))
}

// route returns the request of a URL. If that is not served, route returns the answer instead.
func (w *World) route(r *http.Request, by string) (q request, answered *http.Response) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	in, path := w.reach(path)
	if r.Method == http.MethodGet {
		if answered = discover(path); answered != nil {
			return q, answered
		}
	}
	group := ""
	switch {
	case len(path) > 2 && path[0] == "api":
		q.version, path = path[1], path[2:]
	case len(path) > 3 && path[0] == "apis":
		group, q.version, path = path[1], path[2], path[3:]
	default:
		return q, unserved()
	}
	if len(path) > 2 && path[0] == "namespaces" {
		in.namespace, path = path[1], path[2:]
	}
	q.scope, q.user, q.dry = in, by, r.URL.Query().Get("dryRun") != ""
	path = append(path, "", "")
	q.name, q.subresource = path[1], path[2]
	q.table = w.tables[group+"/"+path[0]]
	if q.table == nil || !q.serves(q.version, "") {
		return q, unserved()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.served(q.table, in) {
		return q, q.unreached()
	}
	q.terminating = w.terminating(q)
	if !q.serves(q.version, q.subresource) {
		return q, refuse(apierrors.NewNotFound(q.resource(), q.name)) // as for an object that is gone
	}
	return q, nil
}

// unreached returns the answer to a request that no binding serves. An APIExport's endpoint asks its authorizer
// first.
func (q request) unreached() *http.Response {
	switch {
	case !q.virtual:
		return unserved()
	case q.cluster == "":
		return refuse(apierrors.NewNotFound(q.resource(), ""))
	}
	return refuse(apierrors.NewForbidden(q.resource(), q.name, errors.New("there is no APIBinding of the APIExport")))
}

// reach returns the workspace of a URL, and the rest of its path.
func (w *World) reach(path []string) (in scope, rest []string) {
	if len(path) > 2 && path[0] == "services" && path[1] == "apiexport" {
		in.virtual, in.shard, path = true, path[2], path[3:]
	}
	if len(path) < 2 || path[0] != "clusters" {
		return in, path
	}
	in.cluster, path = path[1], path[2:]
	w.mu.Lock()
	defer w.mu.Unlock()
	if cluster, ok := w.paths[in.cluster]; ok {
		in.cluster = cluster
	}
	if in.cluster == "*" {
		in.cluster = ""
	}
	return in, path
}

// handle answers a request, except a watch.
func (w *World) handle(ctx context.Context, r *http.Request, q request, body []byte) *http.Response {
	if r.Method == http.MethodGet {
		return w.get(r, q)
	}
	if q.plural == "events" {
		return raw(http.StatusCreated, []byte(`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e","namespace":"default"}}`))
	}
	after, code, refusal := w.write(ctx, r, q, body)
	if refusal != nil {
		return refuse(refusal)
	}
	return raw(code, q.in(after))
}

// write answers a request that changes an object.
func (w *World) write(ctx context.Context, r *http.Request, q request, body []byte) ([]byte, int, *apierrors.StatusError) {
	switch r.Method {
	case http.MethodPost:
		o, err := received(body)
		if err != nil {
			return nil, 0, apierrors.NewBadRequest(err.Error())
		}
		if q.group == ipamGroup && o.GetKind() == "" { // of its own kinds a server knows better
			return nil, 0, apierrors.NewBadRequest("Object 'Kind' is missing")
		}
		after, refusal := w.create(ctx, q, o)
		return after, http.StatusCreated, refusal
	case http.MethodPut:
		after, refusal := w.change(ctx, q, full, body)
		return after, http.StatusOK, refusal
	case http.MethodPatch:
		if by := r.Header.Get("Content-Type"); by == string(types.ApplyYAMLPatchType) && r.URL.Query().Get("fieldManager") == "" {
			return nil, 0, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{
				field.Required(field.NewPath("fieldManager"), "is required for apply patch"),
			})
		}
		return w.patch(ctx, q, types.PatchType(r.Header.Get("Content-Type")), body)
	case http.MethodDelete:
		options := &metav1.DeleteOptions{}
		if len(body) > 0 {
			if err := json.Unmarshal(body, options); err != nil {
				return nil, 0, apierrors.NewBadRequest(err.Error())
			}
		}
		q.dry = q.dry || len(options.DryRun) > 0
		after, refusal := w.remove(ctx, q, options)
		return after, http.StatusOK, refusal
	}
	return nil, 0, apierrors.NewMethodNotSupported(q.resource(), r.Method)
}

// patch patches an object. A server-side apply creates it if there is none.
func (w *World) patch(ctx context.Context, q request, patch types.PatchType, body []byte) ([]byte, int, *apierrors.StatusError) {
	after, refusal := w.change(ctx, q, patch, body)
	applies := patch == types.ApplyYAMLPatchType
	if !applies || q.subresource != "" || refusal == nil || !apierrors.IsNotFound(refusal) {
		return after, http.StatusOK, refusal
	}
	o, err := received(body)
	if err != nil {
		return nil, 0, apierrors.NewBadRequest(err.Error())
	}
	o.SetName(q.name)
	after, refusal = w.create(ctx, q, o)
	return after, http.StatusCreated, refusal
}

// get answers a GET or a LIST.
func (w *World) get(r *http.Request, q request) *http.Response {
	if q.name == "" {
		return w.lists(r, q)
	}
	w.mu.Lock()
	one, ok := q.objects[q.place()]
	w.mu.Unlock()
	if !ok {
		return refuse(apierrors.NewNotFound(q.resource(), q.name))
	}
	return raw(http.StatusOK, q.in(one))
}
