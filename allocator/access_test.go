package allocator

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func wantUnavailable(t *testing.T, err error, words string) {
	t.Helper()
	if !errors.Is(err, ledger.ErrUnavailable) || !strings.Contains(err.Error(), words) {
		t.Errorf("error does not say %q: %v", words, err)
	}
}

// If etcd cannot be reached, Open says why. The client of etcd reports only a deadline.
func TestOpen_SaysWhyItCannotConnect(t *testing.T) {
	t.Parallel()
	silent := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	go func() {
		for conn, err := silent.Accept(); err == nil; conn, err = silent.Accept() {
			_, _ = conn.Write([]byte("this is no etcd\n"))
			_ = conn.Close()
		}
	}()
	gone := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	_ = gone.Close()
	for words, config := range map[string]clientv3.Config{
		"TLS with etcd fails":         {Endpoints: []string{silent.Addr().String()}, TLS: &tls.Config{}},
		"etcd cannot be reached":      {Endpoints: []string{gone.Addr().String()}},
		"ledger is unavailable: etcd": {Endpoints: []string{gone.Addr().String(), "127.0.0.1:1"}},
	} {
		config.Logger = zap.NewNop()
		client, err := clientv3.New(config)
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		h := engine.RealHooks()
		h.Timeout = 300 * time.Millisecond
		_, err = open(t.Context(), client, Options{}, h)
		wantUnavailable(t, err, words)
		_ = client.Close()
	}
}

func TestOpen_SaysThatTheCredentialsAreRefused(t *testing.T) {
	l := reopen(t, etcdtest.NewWith(t, embedetcd.Options{}))
	l.pool("p", "10.0.0.0/24")
	l.bind(request("p", "c", 26))
	auth := l.etcd.Client().Auth
	must.Get(auth.UserAdd(t.Context(), "root", "secret"))(t)
	must.Get(auth.UserGrantRole(t.Context(), "root", "root"))(t)
	must.Get(auth.AuthEnable(t.Context()))(t)
	const words = "etcd refused the credentials"
	_, err := l.Bind(t.Context(), request("p", "d", 26))
	wantUnavailable(t, err, words)
	wantUnavailable(t, l.Release(t.Context(), "c"), words)
	_, _, err = l.Lookup(t.Context(), "c")
	wantUnavailable(t, err, words)
	_, err = Open(t.Context(), l.etcd.Client(), Options{})
	wantUnavailable(t, err, words)
	if l.Healthy() == nil {
		t.Error("healthy without credentials")
	}
	if c, _ := l.Pools().Capacity("p"); c.Blocks != 1 {
		t.Error("a refused bind has left something in memory:", c)
	}
}
