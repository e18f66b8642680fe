package local

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Balancer is one address that leads to any of several servers, as a Service of Kubernetes is:
// each connection goes to the next server that accepts it. It is safe for concurrent use. Close
// it.
type Balancer struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu      sync.Mutex
	servers []string
	next    int
	open    map[net.Conn]struct{}
	closed  bool
}

// NewBalancer listens on a free port of this machine. It has no server yet.
func NewBalancer(ctx context.Context) (*Balancer, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", address(0))
	if err != nil {
		return nil, err
	}
	b := &Balancer{listener: listener, open: map[net.Conn]struct{}{}}
	b.serving.Go(func() { b.serve(context.WithoutCancel(ctx)) })
	return b, nil
}

// URL returns the address, for servers that speak HTTPS.
func (b *Balancer) URL() string { return "https://" + b.listener.Addr().String() }

// Add adds a server by its host and port.
func (b *Balancer) Add(server string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers = append(b.servers, server)
}

// Close ends all connections.
func (b *Balancer) Close() error {
	err := b.listener.Close()
	b.mu.Lock()
	b.closed = true
	for conn := range b.open {
		_ = conn.Close()
	}
	b.mu.Unlock()
	b.serving.Wait()
	return err
}

func (b *Balancer) serve(ctx context.Context) {
	for {
		client, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			b.serving.Go(func() { b.forward(ctx, client) })
		}
	}
}

// forward carries one connection, until either end closes it.
func (b *Balancer) forward(ctx context.Context, client net.Conn) {
	server := b.dial(ctx)
	if server == nil || !b.track(client, server) {
		_ = client.Close()
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // a broken connection is the clients' to notice
			_ = client.Close()
			_ = server.Close()
		})
	}
	both.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, client)
	delete(b.open, server)
}

// dial connects to the next server that accepts; nil if none does.
func (b *Balancer) dial(ctx context.Context) net.Conn {
	var dialer net.Dialer
	b.mu.Lock()
	servers, first := b.servers, b.next
	b.next++
	b.mu.Unlock()
	for i := range servers {
		if conn, err := dialer.DialContext(ctx, "tcp", servers[(first+i)%len(servers)]); err == nil {
			return conn
		}
	}
	return nil
}

// track notes the ends of a connection for Close. It reports false after that.
func (b *Balancer) track(conns ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		for _, conn := range conns {
			_ = conn.Close()
		}
		return false
	}
	for _, conn := range conns {
		b.open[conn] = struct{}{}
	}
	return true
}
