package sim

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
)

// host is where the webhooks are registered.
const host = "ipam.test:9443"

var errRefused = errors.New("connection refused")

// listener is a net.Listener in memory. It is safe for concurrent use.
type listener struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once

	mu   sync.Mutex
	open []net.Conn
	cut  bool
}

func newListener() *listener { return &listener{conns: make(chan net.Conn), end: make(chan struct{})} }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.end:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.end) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9443} }

// dial opens a connection to the listener.
func (l *listener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return nil, errRefused
	}
	l.open = append(l.open, here)
	l.mu.Unlock()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.end:
	case <-ctx.Done():
	}
	return nil, errRefused
}

// sever ends all connections, and refuses new ones. The listener itself stays open: without it, a manager ends at once.
func (l *listener) sever() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, conn := range l.open {
		_ = conn.Close()
	}
	l.open = nil
}

// client returns an HTTP client that speaks TLS to the listener.
func (l *listener) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 128,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := l.dial(ctx)
			if err != nil {
				return nil, err
			}
			// The certificate was issued by the clock of another bubble.
			secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}) //nolint:gosec // in memory
			if err := secure.HandshakeContext(ctx); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return secure, nil
		},
	}}
}
