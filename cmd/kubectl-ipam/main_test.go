package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/test/must"
)

// askedByMain is an environment variable. If it has the URL of a server, the test binary runs as the program, and asks
// this server.
const askedByMain = "IPAM_TEST_SERVER"

// If a server does not answer, a second interrupt ends the program. The first one may not: discovery takes no context,
// and ends only after half a minute.
func TestMain_EndsAtTheSecondInterrupt(t *testing.T) {
	if server := os.Getenv(askedByMain); server != "" {
		os.Args = []string{"kubectl-ipam", "--server", server, "version"}
		main()
	}
	asked, ended := make(chan struct{}, 1), make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMain_EndsAtTheSecondInterrupt$")
	program.Env = append(os.Environ(), askedByMain+"="+server.URL, "KUBECONFIG="+filepath.Join(t.TempDir(), "none"))
	must.Do(t, program.Start())
	go func() { ended <- program.Wait() }()
	<-asked
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for late := time.After(10 * time.Second); ; {
		select {
		case <-again.C:
			_ = program.Process.Signal(os.Interrupt) // it may have ended
		case <-ended:
			return
		case <-late:
			_ = program.Process.Kill()
			<-ended
			t.Fatal("the program goes on after many interrupts")
		}
	}
}
