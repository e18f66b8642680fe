package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// place is where an object is.
type place struct{ cluster, namespace, name string }

// scope bounds the objects of a request. An empty field is no bound.
type scope struct{ shard, cluster, namespace string }

// crowd is the generated objects of a kind. They are generated when they are read, and have a fixed order.
type crowd interface {
	// span returns the range of objects that a scope may cover.
	span(in scope) (from, to int)
	at(i int) place
	find(p place) (i int, ok bool)
	// render returns the JSON of an object in its first state.
	render(i int) []byte
}

// nothing is a crowd without objects.
type nothing struct{}

func (nothing) span(scope) (int, int)  { return 0, 0 }
func (nothing) at(int) place           { panic("there is none") }
func (nothing) find(place) (int, bool) { return 0, false }
func (nothing) render(int) []byte      { panic("there is none") }

// event is a change of an object.
type event struct {
	revision int64
	kind     string // ADDED, MODIFIED or DELETED
	place    place
	object   []byte
}

// table holds the objects of a kind: the crowd, and the objects that were changed or added since. The server locks
// it.
type table struct {
	kind
	crowd   crowd
	shardOf func(cluster string) string

	changed map[place][]byte // nil: deleted
	added   []place          // places that are not in the crowd, in the order in which they came

	log     []event
	begin   int64         // the revision before the first event of the log
	news    chan struct{} // closed at the next event
	waiting sync.Mutex    // guards news
}

func newTable(k kind, shardOf func(string) string) *table {
	return &table{kind: k, crowd: nothing{}, shardOf: shardOf, changed: map[place][]byte{}, news: make(chan struct{})}
}

// covers reports whether a scope includes a place.
func (t *table) covers(in scope, p place) bool {
	return (in.cluster == "" || in.cluster == p.cluster) && (in.namespace == "" || in.namespace == p.namespace) &&
		(in.shard == "" || t.shardOf(p.cluster) == in.shard)
}

// get reads an object; ok is false if it does not exist.
func (t *table) get(p place) (object []byte, ok bool) {
	if object, ok := t.changed[p]; ok {
		return object, object != nil
	}
	if i, ok := t.crowd.find(p); ok {
		return t.crowd.render(i), true
	}
	return nil, false
}

// put stores an object, or its deletion if object is nil, and notes the event.
func (t *table) put(p place, object []byte, e event) {
	_, known := t.changed[p]
	if _, generated := t.crowd.find(p); !known && !generated {
		t.added = append(t.added, p)
	}
	t.changed[p] = object
	t.log = append(t.log, e)
	if len(t.log) > 1<<17 {
		t.compact(len(t.log) / 2)
	}
	t.waiting.Lock()
	close(t.news)
	t.news = make(chan struct{})
	t.waiting.Unlock()
}

// compact forgets the first events of the log.
func (t *table) compact(events int) {
	if events > 0 {
		t.begin = t.log[events-1].revision
	}
	t.log = slices.Clone(t.log[events:])
}

// page lists objects from a position on. The objects of the crowd have the first positions, and the added objects
// follow. next is 0 at the end. With limit 0 there is no limit.
func (t *table) page(in scope, position, limit int) (objects [][]byte, next int) {
	from, to := t.crowd.span(in)
	_, size := t.crowd.span(scope{})
	for i := max(from, position); i < to; i++ {
		if limit > 0 && len(objects) == limit {
			return objects, i
		}
		p := t.crowd.at(i)
		if !t.covers(in, p) {
			continue
		}
		object, changed := t.changed[p]
		if !changed {
			object = t.crowd.render(i)
		}
		if object != nil {
			objects = append(objects, object)
		}
	}
	for i := max(0, position-size); i < len(t.added); i++ {
		if limit > 0 && len(objects) == limit {
			return objects, size + i
		}
		if object := t.changed[t.added[i]]; object != nil && t.covers(in, t.added[i]) {
			objects = append(objects, object)
		}
	}
	return objects, 0
}

// since returns the events after a revision, and a channel that is closed when there are more. ok is false if the log
// does not reach back that far.
func (t *table) since(revision int64) (events []event, news <-chan struct{}, ok bool) {
	t.waiting.Lock()
	defer t.waiting.Unlock()
	i, _ := slices.BinarySearchFunc(t.log, revision+1, func(e event, r int64) int { return int(e.revision - r) })
	return t.log[i:], t.news, revision >= t.begin
}

// bookmarkEvery is how often a watch gets a bookmark with the revision, if it asks for bookmarks.
const bookmarkEvery = time.Minute

// watcher is a watch that is being served.
type watcher struct {
	request
	*http.ResponseController
	out       *bufio.Writer
	bookmarks bool
	at        int64 // the revision up to which everything was sent
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, q request) {
	query := r.URL.Query()
	v := &watcher{request: q, ResponseController: http.NewResponseController(w), out: bufio.NewWriterSize(w, 1<<16),
		bookmarks: query.Get("allowWatchBookmarks") == "true"}
	v.at, _ = strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = v.Flush()
	if query.Get("sendInitialEvents") == "true" {
		s.tellAll(v)
	}
	ticker := time.NewTicker(bookmarkEvery)
	defer ticker.Stop()
	for {
		s.mu.RLock()
		events, news, ok := q.since(v.at)
		now := s.revision
		s.mu.RUnlock()
		if !ok && v.at != 0 {
			v.expire()
			return
		}
		for _, e := range events {
			v.tell(e)
		}
		v.at = max(v.at, now)
		if v.out.Flush() != nil || v.Flush() != nil {
			return
		}
		select {
		case <-news:
		case <-ticker.C:
			v.bookmark("")
		case <-r.Context().Done():
			return
		}
	}
}

// tellAll sends all objects that exist, and a bookmark that says so.
func (s *Server) tellAll(v *watcher) {
	const page = 1000
	s.mu.RLock()
	v.at = s.revision
	s.mu.RUnlock()
	for position := 0; ; {
		s.mu.RLock()
		objects, next := v.page(v.scope, position, page)
		s.mu.RUnlock()
		for _, object := range objects {
			v.send("ADDED", object)
		}
		if position = next; next == 0 {
			break
		}
	}
	v.bookmarks = true
	v.bookmark(`,"annotations":{"k8s.io/initial-events-end":"true"}`)
}

func (v *watcher) tell(e event) {
	if v.covers(v.scope, e.place) {
		v.send(e.kind, e.object)
	}
}

func (v *watcher) send(kind string, object []byte) {
	fmt.Fprintf(v.out, `{"type":%q,"object":%s}`+"\n", kind, v.in(object))
}

func (v *watcher) bookmark(more string) {
	if !v.bookmarks {
		return
	}
	object := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d","creationTimestamp":null%s}}`,
		v.apiVersion(v.versions[0]), v.kind.name, v.at, more)
	v.send("BOOKMARK", []byte(object))
	_ = v.out.Flush() // the next write returns the error
	_ = v.Flush()
}

// expire ends a watch whose revision is no longer kept.
func (v *watcher) expire() {
	status := tooOld().ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	object, _ := json.Marshal(status) // of strings and numbers
	fmt.Fprintf(v.out, `{"type":"ERROR","object":%s}`+"\n", object)
	_ = v.out.Flush() // the client is gone if it fails
}
