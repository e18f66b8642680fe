package main

import (
	"container/list"
	"net"
	"sync"
)

// bounded is a listener that limits the number of open connections. A connection above the
// limit closes the oldest one. If new connections waited instead, as with a usual limit, a few
// clients that hold connections open could block all others, the kubelet's probes included.
//
// A server that knows some of its clients says so by Trust. Their connections are closed last: they
// are the oldest ones, and kept for long.
type bounded struct {
	net.Listener
	most int

	mu                 sync.Mutex
	strangers, trusted list.List // of *tracked, oldest first
}

// tracked is a connection of a bounded listener.
type tracked struct {
	net.Conn
	listener *bounded
	place    *list.Element
	in       *list.List // nil once it is removed
}

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	newest := &tracked{Conn: conn, listener: l}
	if oldest := l.enter(newest); oldest != nil {
		_ = oldest.Conn.Close() // its goroutine gets an error from the next read or write
	}
	return newest, nil
}

// enter adds a connection. Above the limit it removes and returns another one.
func (l *bounded) enter(newest *tracked) (oldest *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.strangers.Len()+l.trusted.Len() >= l.most {
		first := l.strangers.Front()
		if first == nil {
			first = l.trusted.Front()
		}
		oldest = first.Value.(*tracked)
		oldest.move(nil)
	}
	newest.move(&l.strangers)
	return oldest
}

// move moves a connection to the end of a list; nil: it is removed. The caller holds the lock.
func (c *tracked) move(to *list.List) {
	if c.in != nil {
		c.in.Remove(c.place)
	}
	if c.in = to; to != nil {
		c.place = to.PushBack(c)
	}
}

// Trust says that a client that the server knows has this connection.
func (c *tracked) Trust() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.in == &c.listener.strangers {
		c.move(&c.listener.trusted)
	}
}

// Close implements net.Conn.
func (c *tracked) Close() error {
	c.listener.mu.Lock()
	c.move(nil)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
