package fleet

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Server is the stand-in. It serves the platform workspace below /clusters/<path>, and the
// tenants below the URLs of Endpoints. Safe for concurrent use.
type Server struct {
	platform place // its cluster, and its path as the name
	crowd    *Crowd

	mu       sync.RWMutex
	tables   map[string]*table // by group/plural
	revision int64

	requests sync.Map // verb and resource → *atomic.Int64
}

// New makes a server for the platform workspace at a path, and for the workspaces of a crowd.
func New(path string, crowd *Crowd) *Server {
	s := &Server{
		platform: place{cluster: "platform00000000", name: path}, crowd: crowd,
		tables: map[string]*table{}, revision: 1000,
	}
	for _, k := range kinds {
		t := newTable(k, crowd.shardOf)
		t.begin = s.revision
		s.tables[k.group+"/"+k.plural] = t
	}
	s.tables[ipamGroup+"/ipclaims"].crowd = claims{crowd}
	s.tables[ipamGroup+"/ipallocations"].crowd = records{crowd}
	s.tables[kcpGroup+"/apibindings"].crowd = bindings{crowd}
	return s
}

// Requests returns the number of requests since the server was made, by verb, resource and extent, such as "LIST
// ipclaims *" or "GET ipclaims".
func (s *Server) Requests() map[string]int64 {
	counts := map[string]int64{}
	s.requests.Range(func(name, count any) bool {
		counts[name.(string)] = count.(*atomic.Int64).Load()
		return true
	})
	return counts
}

func (s *Server) count(what string) {
	count, _ := s.requests.LoadOrStore(what, &atomic.Int64{})
	count.(*atomic.Int64).Add(1)
}

// request is a parsed path.
type request struct {
	*table
	scope
	version, name, subresource string
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var in scope
	if len(path) > 2 && path[0] == "services" && path[1] == "apiexport" {
		in.shard, path = path[2], path[3:]
	}
	if len(path) > 1 && path[0] == "clusters" {
		in.cluster, path = s.cluster(path[1]), path[2:]
	}
	if in.cluster == "*" {
		in.cluster = ""
	}
	if r.Method == http.MethodGet && discover(w, path) {
		return
	}
	q, ok := s.parse(in, path)
	if !ok || in.shard != "" && in.cluster != "" && s.crowd.shardOf(in.cluster) != in.shard {
		unserved(w)
		return
	}
	s.dispatch(w, r, q)
}

// cluster returns the logical cluster of a path or a name.
func (s *Server) cluster(name string) string {
	if name == s.platform.name {
		return s.platform.cluster
	}
	return name
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, q request) {
	switch {
	case r.Method == http.MethodGet && q.name == "" && r.URL.Query().Get("watch") != "":
		s.count("WATCH " + q.plural)
		s.watch(w, r, q)
	case r.Method == http.MethodGet && q.name == "":
		extent := ""
		if q.cluster == "" {
			extent = " *"
		}
		s.count("LIST " + q.plural + extent)
		s.list(w, r, q)
	case r.Method == http.MethodGet:
		s.count("GET " + q.plural)
		s.get(w, q)
	default:
		s.count(r.Method + " " + q.plural)
		s.write(w, r, q)
	}
}

// parse parses the path below a logical cluster.
func (s *Server) parse(in scope, path []string) (q request, ok bool) {
	group := ""
	switch {
	case len(path) > 2 && path[0] == "api":
		q.version, path = path[1], path[2:]
	case len(path) > 3 && path[0] == "apis":
		group, q.version, path = path[1], path[2], path[3:]
	default:
		return q, false
	}
	if len(path) > 2 && path[0] == "namespaces" {
		in.namespace, path = path[1], path[2:]
	}
	q.scope = in
	if len(path) > 1 {
		q.name = path[1]
	}
	if len(path) > 2 {
		q.subresource = path[2]
	}
	q.table = s.tables[group+"/"+path[0]]
	return q, q.table != nil && q.serves(q.version, q.subresource)
}

func (q request) place() place { return place{q.cluster, q.namespace, q.name} }

func (s *Server) get(w http.ResponseWriter, q request) {
	s.mu.RLock()
	object, ok := q.get(q.place())
	s.mu.RUnlock()
	if !ok {
		refuse(w, notFound(q.kind, q.name))
		return
	}
	raw(w, http.StatusOK, q.in(object))
}

// in returns a stored object in the version of the request.
func (q request) in(object []byte) []byte {
	if q.version == q.versions[0] {
		return object
	}
	return []byte(strings.Replace(string(object), `"`+q.apiVersion(q.versions[0])+`"`, `"`+q.apiVersion(q.version)+`"`, 1))
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, q request) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	position, revision := 0, int64(0)
	if token := r.URL.Query().Get("continue"); token != "" {
		var ok bool
		if revision, position, ok = parseToken(token); !ok || revision < q.begin {
			refuse(w, tooOld())
			return
		}
	}
	s.mu.RLock()
	objects, next := q.page(q.scope, position, limit)
	if revision == 0 {
		revision = s.revision
	}
	s.mu.RUnlock()
	writeList(w, q, objects, revision, next)
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client is gone if it fails
}

func raw(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// refuse answers with the status of an error, as an API server does.
func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	answer(w, int(status.Code), status)
}

func notFound(k kind, name string) *apierrors.StatusError {
	return apierrors.NewNotFound(schema.GroupResource{Group: k.group, Resource: k.plural}, name)
}

func conflict(k kind, name string) *apierrors.StatusError {
	return apierrors.NewConflict(schema.GroupResource{Group: k.group, Resource: k.plural}, name,
		fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
}

// mismatch returns a conflict that names the kind, where other errors name the resource. kcp does the same.
func mismatch(k kind, name, what string) *apierrors.StatusError {
	return apierrors.NewConflict(schema.GroupResource{Group: k.group, Resource: k.name}, name, errors.New("Precondition failed: "+what))
}

func exists(k kind, name string) *apierrors.StatusError {
	return apierrors.NewAlreadyExists(schema.GroupResource{Group: k.group, Resource: k.plural}, name)
}

// unserved answers a path that is not served. The answer names no object.
func unserved(w http.ResponseWriter) {
	http.Error(w, "404 page not found", http.StatusNotFound)
}

// tooOld returns the answer to a request for a revision that is no longer kept.
func tooOld() *apierrors.StatusError {
	return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
}

// token returns the token for the next page of a list.
func token(revision int64, position int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d:%d", revision, position))
}

func parseToken(token string) (revision int64, position int, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(string(text), "%d:%d", &revision, &position)
	return revision, position, err == nil && n == 2
}

// writeList writes a page of a list. next is 0 on the last page.
func writeList(w http.ResponseWriter, q request, objects [][]byte, revision int64, next int) {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(out, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"`, q.apiVersion(q.version), q.kind.name+"List", revision)
	following := ""
	if next != 0 {
		following = token(revision, next)
	}
	fmt.Fprintf(out, `,"continue":%q`, following)
	_, _ = out.WriteString(`},"items":[`)
	for i, object := range objects {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(q.in(object))
	}
	_, _ = out.WriteString("]}\n")
	_ = out.Flush() // the client is gone if it fails
}
