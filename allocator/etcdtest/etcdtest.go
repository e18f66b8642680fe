// Package etcdtest gives a test a real etcd of its own.
package etcdtest

import (
	"log/slog"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
)

// Etcd is an etcd that lives as long as its test. Not safe for concurrent use.
type Etcd struct {
	// From is the first revision of the test.
	From int64

	t       testing.TB
	options embedetcd.Options
	server  *embedetcd.Server
	shared  *clientv3.Client // the test's own client of the server that tests share; nil: the server is the test's own
}

// New returns an empty etcd, which does not call fsync. If the tests of the package share a server, do not call Stop.
func New(t testing.TB) *Etcd {
	t.Helper()
	select {
	case server := <-idle:
		return take(t, server)
	default:
		return NewWith(t, embedetcd.Options{})
	}
}

// NewWith starts an etcd with options. The default of Dir is a directory of the test.
func NewWith(t testing.TB, options embedetcd.Options) *Etcd {
	t.Helper()
	if options.Dir == "" {
		options.Dir = t.TempDir()
	}
	options.NoFsync = true
	if options.Logger == nil {
		options.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	}
	e := &Etcd{From: 1, t: t, options: options}
	e.Start()
	t.Cleanup(e.Stop)
	return e
}

// Client returns a client of the etcd that is running now. The client ends with Stop.
func (e *Etcd) Client() *clientv3.Client {
	if e.shared != nil {
		return e.shared
	}
	return e.server.Client()
}

// MaxTxnOps is how many operations a transaction may have.
func (e *Etcd) MaxTxnOps() int { return e.server.MaxTxnOps() }

// Start starts the etcd, on the data that the last Stop has left.
func (e *Etcd) Start() {
	e.t.Helper()
	server, err := embedetcd.Start(e.t.Context(), e.options)
	if err != nil {
		e.t.Fatalf("Start: %v", err)
	}
	e.server = server
}

// Stop ends the etcd. Its data stays.
func (e *Etcd) Stop() {
	e.t.Helper()
	if err := e.server.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
}
