package etcdtest

import (
	"context"
	"log/slog"
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
)

var (
	// idle has the shared server while no test uses it. idle is nil in a package whose tests share no server.
	idle chan *embedetcd.Server
	// sharedDir is the data directory of the shared server.
	sharedDir string
)

// Sharing runs the tests of a package, for goleak.VerifyTestMain. New gives all tests the same server, one test after
// the other, and empties it before each. A test that runs while another test uses that server gets a server of its own.
type Sharing struct{ *testing.M }

// Run runs the tests, and stops the server.
func (s Sharing) Run() int {
	idle = make(chan *embedetcd.Server, 1)
	idle <- nil // it is started by the first test
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	sharedDir = dir
	code := s.M.Run()
	if server := <-idle; server != nil {
		_ = server.Close()
	}
	return code
}

// take gives the shared server to a test until the test ends. If server is nil, take starts the server.
func take(t testing.TB, server *embedetcd.Server) *Etcd {
	t.Helper()
	t.Cleanup(func() { idle <- server })
	if server == nil {
		var err error
		server, err = embedetcd.Start(context.WithoutCancel(t.Context()), embedetcd.Options{
			Dir: sharedDir, NoFsync: true,
			Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		})
		if err != nil {
			t.Fatalf("Start: %v", err)
		}
	}
	all, err := server.Client().Delete(t.Context(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatalf("delete what the test before has left: %v", err)
	}
	own, of := clientv3.NewCtxClient(context.WithoutCancel(t.Context())), server.Client()
	own.Cluster, own.KV, own.Lease = of.Cluster, of.KV, of.Lease
	own.Watcher, own.Auth, own.Maintenance = of.Watcher, of.Auth, of.Maintenance
	return &Etcd{From: all.Header.Revision + 1, t: t, server: server, shared: own}
}
