package simetcd

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Fate is what happens to a request.
type Fate struct {
	Before, After time.Duration // the delays of the request and of its answer
	Lost          bool          // it does not arrive
	Mute          bool          // it arrives, and its answer does not
	Hang          bool          // with Lost or Mute: the client hears nothing until its time is over
	Late          time.Duration // with Mute: it arrives after this delay, even if the client has gone
}

// Link is the connection of one process to the server. It is safe for concurrent use.
type Link struct {
	Server *Etcd
	Fates  func(request any) Fate
	// Lag returns the delay of a watch's next responses.
	Lag func() time.Duration

	once sync.Once
	end  chan struct{}
}

// NewLink returns a connection.
func NewLink(server *Etcd, fates func(request any) Fate, lag func() time.Duration) *Link {
	return &Link{Server: server, Fates: fates, Lag: lag, end: make(chan struct{})}
}

// Client returns a client of the connection. It lives as long as ctx.
func (l *Link) Client(ctx context.Context) *clientv3.Client {
	c := clientv3.NewCtxClient(ctx)
	c.KV = clientv3.NewKVFromKVClient(l, c)
	c.Watcher = clientv3.NewWatchFromWatchClient(l, c)
	return c
}

// Cut ends the connection. After it nothing arrives at either end, except a request whose Fate is Late.
func (l *Link) Cut() { l.once.Do(func() { close(l.end) }) }

var errAway = status.Error(codes.Unavailable, "the connection is closed")

// do sends a request, and returns its answer.
func do[R any](ctx context.Context, l *Link, request any) (none R, err error) {
	epoch, fate := l.Server.current(), l.Fates(request)
	if err := l.wait(ctx, fate.Before); err != nil {
		return none, err
	}
	if l.Server.current() != epoch {
		return none, errAway
	}
	if fate.Lost {
		return none, l.fail(ctx, fate)
	}
	if fate.Mute && fate.Late > 0 {
		time.AfterFunc(fate.Late, func() {
			if l.Server.current() == epoch {
				_, _ = l.Server.Apply(request)
			}
		})
		return none, l.fail(ctx, fate)
	}
	answer, refused := l.Server.Apply(request)
	if fate.Mute {
		return none, l.fail(ctx, fate)
	}
	if err := l.wait(ctx, fate.After); err != nil {
		return none, err
	}
	if refused != nil {
		return none, refused
	}
	return answer.(R), nil
}

// fail returns the error of a request that got no answer. It returns when the client is to learn of the failure.
func (l *Link) fail(ctx context.Context, fate Fate) error {
	if !fate.Hang {
		return errAway
	}
	select {
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-l.end:
		return errAway
	}
}

// wait waits, and fails when the connection is cut or ctx ends.
func (l *Link) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-l.end:
		return errAway
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	default:
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-l.end:
		return errAway
	}
}
