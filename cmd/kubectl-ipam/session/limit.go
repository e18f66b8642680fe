package session

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
)

// requestTimeout is the default of --request-timeout. kubectl has no default, and waits for ever if a server hangs.
const requestTimeout = "30s"

// limit limits the time from a request to the end of its answer. As a watch has no end, limit limits only the time to
// its header. Safe for concurrent use.
type limit struct {
	http.RoundTripper
	after time.Duration
}

// RoundTrip implements http.RoundTripper. If a request takes too long, it ends with an [exit.TimeoutError].
func (l limit) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(l.after, func() { cancel(&exit.TimeoutError{After: l.after}) })
	a := &answer{ctx: ctx, end: func() { timer.Stop(); cancel(nil) }}
	response, err := l.RoundTripper.RoundTrip(req.WithContext(ctx))
	if err != nil {
		err = a.explained(err)
		a.end()
		return nil, err
	}
	if req.URL.Query().Has("watch") {
		timer.Stop()
	}
	a.ReadCloser, response.Body = response.Body, a
	return response, nil
}

// answer is the body of an answer that must end in time.
type answer struct {
	io.ReadCloser
	ctx context.Context
	end func()
}

// Read implements io.Reader.
func (a *answer) Read(into []byte) (int, error) {
	n, err := a.ReadCloser.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.explained(err)
	}
	return n, err
}

// Close implements io.Closer.
func (a *answer) Close() error {
	defer a.end()
	return a.ReadCloser.Close()
}

// explained returns the timeout if that caused the error, and otherwise the error.
func (a *answer) explained(err error) error {
	if late, ok := errors.AsType[*exit.TimeoutError](context.Cause(a.ctx)); ok {
		return late
	}
	return err
}
