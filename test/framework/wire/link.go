// Package wire carries connections between processes. It spreads them over several servers, as a Service of
// Kubernetes does, and lets a test cut them and slow them down.
package wire

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// Link is one address of this machine that leads to any of several servers: each connection goes to the next server that
// accepts it. It is safe for concurrent use. Close it.
type Link struct {
	listener net.Listener

	mu      sync.Mutex
	servers []string // by host and port
	next    int
	cut     bool
	delay   time.Duration // before each piece of data, in both directions
	conns   map[net.Conn]struct{}

	ctx        context.Context
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
}

// New listens at a free port, and forwards connections to the servers, named by host and port.
func New(servers ...string) (*Link, error) {
	listen := net.ListenConfig{}
	listener, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{listener: listener, servers: servers, conns: map[net.Conn]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.goroutines.Go(l.accept)
	return l, nil
}

// Addr returns the address, as host and port.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Add adds a server by its host and port.
func (l *Link) Add(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = append(l.servers, server)
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil && l.ctx.Err() != nil {
			return
		}
		if err == nil {
			l.goroutines.Go(func() { l.serve(near) })
		}
	}
}

func (l *Link) serve(near net.Conn) {
	defer func() { _ = near.Close() }()
	if !l.enter(near) {
		return
	}
	defer l.leave(near)
	far := l.dial()
	if far == nil {
		return
	}
	defer func() { _ = far.Close() }()
	if !l.enter(far) {
		return
	}
	defer l.leave(far)
	var back sync.WaitGroup
	back.Go(func() { l.pass(near, far) })
	l.pass(far, near)
	back.Wait()
}

// dial connects to the next server that accepts; nil if none does.
func (l *Link) dial() net.Conn {
	dialer := net.Dialer{}
	l.mu.Lock()
	servers, first := l.servers, l.next
	l.next++
	l.mu.Unlock()
	for i := range servers {
		if conn, err := dialer.DialContext(l.ctx, "tcp", servers[(first+i)%len(servers)]); err == nil {
			return conn
		}
	}
	return nil
}

// enter notes an open connection, unless the link is cut.
func (l *Link) enter(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.ctx.Err() != nil {
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *Link) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// pass copies data until one of the two connections ends, and closes both.
func (l *Link) pass(to, from net.Conn) {
	defer func() { _ = to.Close() }()
	defer func() { _ = from.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			l.wait()
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *Link) wait() {
	l.mu.Lock()
	delay := l.delay
	l.mu.Unlock()
	if delay > 0 {
		retry.Pause(l.ctx, delay)
	}
}

// Cut cuts or restores the link. A cut loses the data that is on its way.
func (l *Link) Cut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if !cut {
		return
	}
	for c := range l.conns {
		_ = c.Close()
	}
}

// Slow delays all data; 0 ends the delay.
func (l *Link) Slow(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
}

// Close ends all connections.
func (l *Link) Close() error {
	l.cancel()
	err := l.listener.Close()
	l.Cut(true)
	l.goroutines.Wait()
	return err
}
