package main

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// Above the limit, the oldest connection that is not trusted is closed. If all are trusted, the oldest of these is.
func TestBounded_ClosesTrustedConnectionsLast(t *testing.T) {
	t.Parallel()
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	l := &bounded{Listener: listener, most: 2}
	t.Cleanup(func() { _ = l.Close() })
	connect := func() (client net.Conn, server *tracked) {
		client = dial(t, listener.Addr().String())
		accepted := must.Get(l.Accept())(t)
		return client, accepted.(*tracked)
	}
	isClosed := func(name string, client net.Conn) {
		t.Helper()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the %s connection: Read = %v, want it closed", name, err)
		}
	}
	known, knownServer := connect()
	stranger, strangerServer := connect()
	knownServer.Trust()
	second, secondServer := connect()
	isClosed("unknown", stranger)
	strangerServer.Trust() // too late: it is closed already
	secondServer.Trust()
	_, last := connect()
	isClosed("oldest", known)
	knownServer.Close()
	last.Close()
	send(t, second, "x")
	if _, err := io.ReadFull(secondServer, make([]byte, 1)); err != nil {
		t.Errorf("the other connection: %v, want it open", err)
	}
	secondServer.Close()
	if l.strangers.Len() != 0 || l.trusted.Len() != 0 {
		t.Errorf("%d and %d connections are counted, want none", l.strangers.Len(), l.trusted.Len())
	}
}
