package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/test/must"
)

// The program ends after its timeout, with an error, when the server is down and when it hangs.
func TestClaim_EndsWithoutAServer(t *testing.T) {
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t) // the kernel accepts
	for _, name := range []string{"hangs", "down"} {
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		must.Do(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x,
			clusters: [{name: x, cluster: {server: "http://%s"}}], contexts: [{name: x, context: {cluster: x}}]}`, listener.Addr()), 0o600))
		t.Setenv("KUBECONFIG", kubeconfig)
		ended := make(chan error, 1)
		go func() { ended <- claim(500*time.Millisecond, "internal", "web") }()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s: the program succeeds; want an error", name)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the program waits; want an error after its timeout", name)
		}
		_ = listener.Close() // for the next one; a second time, it is closed
	}
}
