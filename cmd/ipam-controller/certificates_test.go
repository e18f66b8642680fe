package main

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/must"
)

// If etcd gets certificates of another CA, and no longer trusts the former CA, the ledger works again once its own
// files are replaced, too, without a restart.
func TestEtcdCertificates_AreReplaced(t *testing.T) {
	files, servers := certificates(t, t.TempDir()), certificates(t, t.TempDir())
	replace(t, files, servers)
	server, err := etcd.New(t.Context(), etcd.Options{Dir: t.TempDir(), TLS: servers})
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	opts := defaults()
	opts.etcdServers = []string{"https://" + server.Members[0].Addr}
	opts.etcdCAFile, opts.etcdCertFile, opts.etcdKeyFile = files.TrustedCAFile, files.CertFile, files.KeyFile
	store := must.Get(openStore(t.Context(), opts))(t)
	defer store.Close()
	alloc := must.Get(allocator.Open(t.Context(), store.client, allocator.Options{}))(t)
	defer alloc.Close()
	must.Get(alloc.Pools().Register(t.Context(), ledger.Pool{ID: "p", Cluster: "c", Name: "p", CIDR: netip.MustParsePrefix("10.0.0.0/24")}))(t)
	bind := func(within time.Duration, claim ledger.ClaimID) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			_, err := alloc.Bind(ctx, ledger.Request{Pool: "p", Length: 28, Holder: ledger.Holder{Claim: claim, Cluster: "c", Namespace: "n", Name: "n"}})
			return err == nil, nil
		})
	}
	must.Do(t, bind(10*time.Second, "before"))

	former := certificates(t, t.TempDir())
	replace(t, former, servers)
	certificates(t, filepath.Dir(servers.CertFile))
	must.Do(t, server.Members[0].Kill())
	must.Get(server.Members[0].Start())(t)
	must.Do(t, server.Ready(t.Context()))
	if bind(time.Second, "untrusted") == nil {
		t.Error("etcd still trusts the former CA")
	}
	replace(t, files, servers)
	must.Do(t, bind(time.Minute, "after"))
	opts.etcdCAFile, opts.etcdCertFile, opts.etcdKeyFile = former.TrustedCAFile, former.CertFile, former.KeyFile
	if again, err := openStore(t.Context(), opts); err == nil {
		t.Error("the former certificate still opens the ledger", again.Close())
	}
}

// A client that reads the metrics has to show a certificate. When the files of client or server are replaced, the next
// connection uses the new ones.
func TestMetricsCertificates_AreReplaced(t *testing.T) {
	files := certificates(t, t.TempDir())
	opts := defaults()
	opts.metricsCertFile, opts.metricsKeyFile, opts.metricsClientCAFile = files.CertFile, files.KeyFile, files.TrustedCAFile
	address := serveMetrics(t, opts)

	former := certificates(t, t.TempDir())
	replace(t, former, files)
	must.Do(t, scrape(t, address, former))
	if scrape(t, address, &transport.TLSInfo{TrustedCAFile: files.TrustedCAFile}) == nil {
		t.Error("without a certificate: no error")
	}
	if scrape(t, address, certificates(t, t.TempDir())) == nil {
		t.Error("with a certificate of another CA: no error")
	}
	certificates(t, filepath.Dir(files.CertFile))
	must.Do(t, scrape(t, address, files))
	if scrape(t, address, former) == nil {
		t.Error("with the former certificate: no error")
	}
}

func TestMetricsTLS_FailsWithoutItsFiles(t *testing.T) {
	opts := defaults()
	opts.metricsCertFile, opts.metricsKeyFile = "no.crt", "no.key"
	must.Fail(opts.metricsTLS())(t, os.ErrNotExist)
}

// certificates makes a new CA and a certificate signed by it, in place of those in a folder.
func certificates(t *testing.T, dir string) *transport.TLSInfo {
	t.Helper()
	return must.Get(etcd.Certificates(dir))(t)
}

// replace overwrites files with the content of other files.
func replace(t *testing.T, files, by *transport.TLSInfo) {
	t.Helper()
	for to, from := range map[string]string{files.TrustedCAFile: by.TrustedCAFile, files.CertFile: by.CertFile, files.KeyFile: by.KeyFile} {
		content := must.Get(os.ReadFile(from))(t)
		write(t, to, string(content))
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	must.Do(t, os.WriteFile(file, []byte(content), 0o600))
}

// serveMetrics serves the metrics until the test ends, and returns the address.
func serveMetrics(t *testing.T, opts *options) string {
	t.Helper()
	opts.metricsAddress, opts.probeAddress = "127.0.0.1:0", nowhere
	servers := must.Get(opts.servers(t.Context(), &probes{}))(t)
	return runServer(t, servers[0])
}

// scrape reads the metrics over a connection of its own.
func scrape(t *testing.T, address string, files *transport.TLSInfo) error {
	t.Helper()
	secure := must.Get(files.ClientConfig())(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil))(t)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
