package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/test/must"
)

// The servers answer only GET and HEAD.
func TestServers_AreReadOnly(t *testing.T) {
	opts, checked := defaults(), &probes{}
	opts.metricsAddress, opts.probeAddress = "127.0.0.1:0", "127.0.0.1:0"
	must.Do(t, errors.Join(checked.AddHealthzCheck("ping", healthz.Ping), checked.AddReadyzCheck("ledger", unready)))
	servers := must.Get(opts.servers(t.Context(), checked))(t)
	metrics, probed := runServer(t, servers[0]), runServer(t, servers[1])
	for url, read := range map[string]int{
		metrics + "/metrics":       http.StatusOK,
		metrics + "/":              http.StatusNotFound,
		probed + "/healthz":        http.StatusOK,
		probed + "/healthz/ping":   http.StatusOK,
		probed + "/readyz":         http.StatusInternalServerError,
		probed + "/readyz/":        http.StatusInternalServerError,
		probed + "/readyz/ledger":  http.StatusInternalServerError,
		probed + "/readyz/nothing": http.StatusNotFound,
	} {
		write := http.StatusMethodNotAllowed
		if url == metrics+"/" {
			write = http.StatusNotFound
		}
		for method, want := range map[string]int{
			http.MethodGet: read, http.MethodHead: read,
			http.MethodPost: write, http.MethodPut: write, http.MethodPatch: write, http.MethodDelete: write,
		} {
			if got := ask(t, method, url); got != want {
				t.Errorf("%s %s = %d, want %d", method, url, got, want)
			}
		}
	}
}

// unready is a check that fails.
func unready(*http.Request) error { return errors.New("not yet") }

// ask sends a request, and returns the HTTP status of the response.
func ask(t *testing.T, method, url string) int {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+url, nil))(t)
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	return response.StatusCode
}

// Clients that open many connections and send incomplete requests do not block others: the
// oldest connections are closed, and a complete request is answered.
func TestServers_CloseTheOldestOfTooManyConnections(t *testing.T) {
	const many = 600
	patient := usual
	patient.read = time.Hour
	server := must.Get(patient.server(t.Context(), "metrics", "127.0.0.1:0", nil, metricsHandler()))(t)
	address := runServer(t, server)
	closed := make(chan error, many)
	for range many {
		conn := dial(t, address)
		must.Do(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		send(t, conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n")
		go func() {
			_, err := io.Copy(io.Discard, conn)
			closed <- err
		}()
	}
	for i := range many - patient.connections {
		if err := <-closed; errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d of %d connections are closed, want %d", i, many, many-patient.connections)
		}
	}
	if got := ask(t, http.MethodGet, address+"/metrics"); got != http.StatusOK {
		t.Errorf("GET /metrics = %d beside %d connections, want %d", got, many, http.StatusOK)
	}
}

// A deadline ends each connection: one with an incomplete request, one whose client does not read the response, and an
// idle one.
func TestServers_EndSlowConnections(t *testing.T) {
	ended := make(chan error, 1)
	endless := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/endless" {
			return
		}
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	})
	short := limits{connections: 10, read: 50 * time.Millisecond, write: 50 * time.Millisecond, idle: 50 * time.Millisecond}
	server := must.Get(short.server(t.Context(), "test", "127.0.0.1:0", nil, endless))(t)
	address := runServer(t, server)
	for name, request := range map[string]string{
		"no request":    "",
		"half a header": "GET / HTTP/1.1\r\nHost: x\r\n",
		"half a body":   "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
		"no further":    "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn := dial(t, address)
		send(t, conn, request)
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v, want the end of the connection", name, err)
		}
	}
	send(t, dial(t, address), "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := <-ended; err == nil {
		t.Error("the server wrote the whole endless response, want a write error")
	}
}

// If an address is in use, there is an error before the manager starts. The address 0 turns a server off.
func TestServers_FailAtOnceIfTheAddressIsInUse(t *testing.T) {
	taken := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	opts := defaults()
	opts.metricsAddress, opts.probeAddress = nowhere, nowhere
	if servers, err := opts.servers(t.Context(), &probes{}); len(servers) != 0 || err != nil {
		t.Errorf("servers = %v, %v; want none", servers, err)
	}
	opts.metricsAddress = taken.Addr().String()
	if _, err := opts.servers(t.Context(), &probes{}); err == nil || !strings.Contains(err.Error(), "serve the metrics") {
		t.Errorf("servers = %v, want an error that names the metrics", err)
	}
}

// runServer runs a server until the test ends, and returns its address.
func runServer(t *testing.T, server *manager.Server) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return server.Listener.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", address))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	must.Get(fmt.Fprint(conn, text))(t)
}
