package simkcp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Fate is what happens to a request.
type Fate struct {
	Before, After time.Duration // the delays of the request and of its answer
	Lost          bool          // it does not arrive
	Mute          bool          // it arrives, and its answer does not
	Late          time.Duration // with Mute: it arrives after this delay, even if the client has gone
	Fail          int           // the server answers by that code; zero: it does not fail
}

// Transport is the connection of one process to the server: an http.RoundTripper, safe for concurrent use.
type Transport struct {
	World *World
	Fates func(method, plural string) Fate
	// Lag returns the delay of a watch's next events.
	Lag func(plural string) time.Duration
	// As is the user of each request. Empty: the controller.
	As string

	mu  sync.Mutex
	cut bool
	end chan struct{}
}

// NewTransport returns a connection of the controller.
func NewTransport(w *World, fates func(method, plural string) Fate, lag func(string) time.Duration) *Transport {
	return &Transport{World: w, Fates: fates, Lag: lag, As: userController, end: make(chan struct{})}
}

// Cut ends the connection: nothing arrives after it.
func (t *Transport) Cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.cut {
		t.cut = true
		close(t.end)
	}
}

var errAway = errors.New("connection reset by peer")

// wait waits, and fails when the connection is cut or ctx ends.
func (t *Transport) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-t.end:
		return errAway
	default:
	}
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.end:
		return errAway
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	body, err := sentBody(r)
	if err != nil {
		return nil, err
	}
	q, answered := t.World.route(r, t.As)
	if answered != nil {
		return answered, nil
	}
	fate := t.Fates(r.Method, q.plural)
	if err := t.wait(ctx, fate.Before); err != nil {
		return nil, err
	}
	switch {
	case fate.Lost:
		return nil, errAway
	case fate.Fail != 0:
		return failed(fate.Fail), nil
	case r.Method == http.MethodGet && q.name == "" && r.URL.Query().Get("watch") != "":
		return t.watch(r, q), nil
	}
	if fate.Mute && fate.Late > 0 {
		time.AfterFunc(fate.Late, func() { t.World.handle(context.WithoutCancel(ctx), r, q, body) })
		return nil, cmp.Or(t.wait(ctx, fate.Late), errAway)
	}
	answered = t.World.handle(ctx, r, q, body)
	if fate.Mute {
		return nil, errAway
	}
	if err := t.wait(ctx, fate.After); err != nil {
		return nil, err
	}
	return answered, nil
}

func sentBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	return body, errors.Join(err, r.Body.Close())
}
