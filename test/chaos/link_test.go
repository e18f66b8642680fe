package chaos

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// link is a connection between two processes that can be cut and slowed.
type link struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	cut   bool
	delay time.Duration // of each piece of data, in both directions
	conns map[net.Conn]struct{}

	ctx        context.Context
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
}

// newLink listens at an address of its own and passes everything on to another.
func newLink(to string) (*link, error) {
	listen := net.ListenConfig{}
	listener, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, to: to, conns: map[net.Conn]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.goroutines.Go(l.accept)
	return l, nil
}

func (l *link) addr() string { return l.listener.Addr().String() }

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.goroutines.Go(func() { l.serve(near) })
	}
}

func (l *link) serve(near net.Conn) {
	defer near.Close()
	if !l.enter(near) {
		return
	}
	defer l.leave(near)
	dialer := net.Dialer{}
	far, err := dialer.DialContext(l.ctx, "tcp", l.to)
	if err != nil {
		return
	}
	defer far.Close()
	if !l.enter(far) {
		return
	}
	defer l.leave(far)
	var back sync.WaitGroup
	back.Go(func() { l.pass(near, far) })
	l.pass(far, near)
	back.Wait()
}

// enter notes an open connection, unless the link is cut.
func (l *link) enter(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut || l.ctx.Err() != nil {
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *link) leave(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// pass copies until one of the two is closed, and closes the other.
func (l *link) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
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

func (l *link) wait() {
	l.mu.Lock()
	delay := l.delay
	l.mu.Unlock()
	if delay > 0 {
		retry.Pause(l.ctx, delay)
	}
}

// set cuts or restores the link. What is on its way when it is cut is lost.
func (l *link) set(cut bool) {
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

// slow delays everything; 0 is as fast as can be.
func (l *link) slow(delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = delay
}

func (l *link) close() {
	l.cancel()
	_ = l.listener.Close()
	l.set(true)
	l.goroutines.Wait()
}
