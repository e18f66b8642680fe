package simkcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watch answers with a stream of events. The stream ends with the request, at its timeout, or when the World ends the
// watches of the shard.
func (t *Transport) watch(r *http.Request, q request) *http.Response {
	query := r.URL.Query()
	selected, err := q.selector(query)
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error()))
	}
	reader, writer := io.Pipe()
	s := &stream{transport: t, request: q, out: writer, selected: selected, initial: query.Get("sendInitialEvents") == "true"}
	s.silent = !s.initial && query.Get("sendInitialEvents") == ""
	s.at, _ = strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	timeout, _ := strconv.Atoi(query.Get("timeoutSeconds"))
	if timeout == 0 {
		timeout = 600
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(timeout)*time.Second)
	go func() {
		defer cancel()
		_ = writer.CloseWithError(s.run(ctx))
	}()
	answered := raw(http.StatusOK, nil)
	answered.ContentLength = -1
	answered.Body = streamBody{reader, cancel}
	return answered
}

// streamBody is the body of a watch's answer. Closing it ends the watch.
type streamBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b streamBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// stream is a watch. One goroutine runs it.
type stream struct {
	transport *Transport
	request   request
	selected  func(object []byte) bool
	out       *io.PipeWriter
	initial   bool  // the objects that exist come first, and a bookmark
	silent    bool  // the objects that exist come first if no revision is asked for, without a bookmark
	at        int64 // the revision that was sent
	follows   bool  // all changes since at are kept, but those that were forgotten since
}

func (s *stream) run(ctx context.Context) error {
	w := s.transport.World
	w.mu.Lock()
	shard := s.request.shard
	if !s.request.virtual {
		shard = w.shardOf(s.request.cluster)
	}
	epoch := w.epochs[shard]
	w.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { _ = s.out.Close() })
	defer stop()
	if s.initial || s.silent && s.at == 0 {
		if err := s.begin(); err != nil {
			return err
		}
	}
	for {
		w.mu.Lock()
		events, kept := s.changes()
		news, now, revision := s.request.news, w.epochs[shard], w.revision
		w.mu.Unlock()
		switch {
		case now != epoch:
			return io.EOF
		case s.at != 0 && (!kept || s.at > revision):
			return s.expire()
		}
		if err := s.bring(events); err != nil {
			return err
		}
		s.at = max(s.at, revision)
		if err := s.wait(ctx, news); err != nil {
			return err
		}
	}
}

// begin sends the objects that exist, and then a bookmark if initial is set.
func (s *stream) begin() error {
	w := s.transport.World
	w.mu.Lock()
	objects, revision := s.request.list(s.request.scope), w.revision
	w.mu.Unlock()
	for _, o := range objects {
		if !s.selected(o) {
			continue
		}
		if err := s.send(added, o); err != nil {
			return err
		}
	}
	s.at = revision
	if !s.initial {
		return nil
	}
	return s.send("BOOKMARK", fmt.Appendf(nil,
		`{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d","creationTimestamp":null,"annotations":{%q:"true"}}}`,
		s.request.apiVersion(s.request.versions[0]), s.request.kind.name, s.at, metav1.InitialEventsAnnotationKey))
}

// changes returns the changes that were not sent yet, as the scope and the selectors show them. It reports false if
// some of them are compacted. The mutex of the world is held.
func (s *stream) changes() (seen []event, kept bool) {
	events, kept := s.request.since(s.at)
	if s.follows {
		kept = s.at >= s.request.lost
	}
	s.follows = true
	for _, e := range events {
		if !s.request.covers(s.request.scope, e.place) {
			continue
		}
		if e = s.shown(e); e.kind != "" {
			seen = append(seen, e)
		}
	}
	return seen, kept
}

// shown returns an event as the selectors show it. If they no longer select the object, the event deletes it as it
// was. An event without a type is not to be sent.
func (s *stream) shown(e event) event {
	was, is := e.before != nil && s.selected(e.before), e.kind != deleted && s.selected(e.object)
	switch {
	case was && is:
		e.kind = modified
	case is:
		e.kind = added
	case was && e.kind != deleted:
		o := parse(e.before)
		o.SetResourceVersion(strconv.FormatInt(e.revision, 10))
		e.kind, e.object = deleted, text(o)
	case !was:
		e.kind = ""
	}
	return e
}

// bring sends events.
func (s *stream) bring(events []event) error {
	for _, e := range events {
		if err := s.send(e.kind, e.object); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for the next change. If the watch does not show it, wait returns at once.
func (s *stream) wait(ctx context.Context, news <-chan struct{}) error {
	select {
	case <-news:
	case <-ctx.Done():
		return io.EOF
	case <-s.transport.end:
		return errAway
	}
	w := s.transport.World
	w.mu.Lock()
	more, _ := s.changes()
	w.mu.Unlock()
	if len(more) == 0 {
		return nil
	}
	if err := s.transport.wait(ctx, s.transport.Lag(s.request.plural)); err != nil {
		return io.EOF
	}
	return nil
}

// expire sends that the revision is compacted.
func (s *stream) expire() error {
	status := apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.").ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	b, err := json.Marshal(status)
	if err != nil {
		return err
	}
	return s.send("ERROR", b)
}

func (s *stream) send(kind string, object []byte) error {
	_, err := fmt.Fprintf(s.out, `{"type":%q,"object":%s}`+"\n", kind, s.request.in(object))
	return err
}
