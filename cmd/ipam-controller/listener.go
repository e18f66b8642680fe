package main

import (
	"container/list"
	"net"
	"sync"
)

// bounded is a listener that limits the number of open connections. A connection above the
// limit closes the oldest one. If new connections waited instead, as with a usual limit, a few
// clients that hold connections open could block all others, the kubelet's probes included.
type bounded struct {
	net.Listener
	most int

	mu   sync.Mutex
	open list.List // of *tracked, oldest first
}

// tracked is a connection of a bounded listener.
type tracked struct {
	net.Conn
	listener *bounded
	place    *list.Element
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

// enter adds a connection. Above the limit it removes and returns the oldest one.
func (l *bounded) enter(newest *tracked) (oldest *tracked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest.place = l.open.PushBack(newest)
	if l.open.Len() <= l.most {
		return nil
	}
	return l.open.Remove(l.open.Front()).(*tracked)
}

// Close implements net.Conn.
func (c *tracked) Close() error {
	c.listener.mu.Lock()
	c.listener.open.Remove(c.place)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
