package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// bookmarkEvery is how often a watch is told the revision, if it asks for that.
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

// tellAll sends all that there is, and a bookmark that says so.
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
	_ = v.out.Flush() // the next write tells
	_ = v.Flush()
}

// expire ends the watch of a revision that is not kept any more.
func (v *watcher) expire() {
	status := tooOld().ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	object, _ := json.Marshal(status) // of strings and numbers
	fmt.Fprintf(v.out, `{"type":"ERROR","object":%s}`+"\n", object)
	_ = v.out.Flush() // the client is gone if it fails
}
