package main

import (
	"container/list"
	"net"
	"sync"
)

// bounded is a listener that limits the number of open connections. A connection above the limit closes the oldest one.
// If new connections had to wait instead, as with a usual limit, a few clients could block all others, even the
// kubelet's probes, by keeping connections open.
//
// A server that knows a client calls Trust on its connection. Trusted connections are closed last, although they are
// usually the oldest: such clients keep them for long.
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
	in       *list.List // the list that has the connection; nil once it is removed
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

// enter adds a connection. If there are too many, it removes another one, and returns it.
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

// move moves a connection to the end of a list. If the list is nil, it removes the connection. The caller holds the
// lock.
func (c *tracked) move(to *list.List) {
	if c.in != nil {
		c.in.Remove(c.place)
	}
	if c.in = to; to != nil {
		c.place = to.PushBack(c)
	}
}

// Trust notes that the connection is that of a client that the server knows.
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
