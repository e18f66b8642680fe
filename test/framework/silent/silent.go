// Package silent has servers without an answer, for the tests of programs that must end nevertheless.
package silent

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/test/must"
)

// Servers returns the URLs of three servers that do not answer, by their fault: down, hangs and slow. The slow server
// never ends its answer. The servers end with the test.
func Servers(t testing.TB) map[string]string {
	t.Helper()
	hangs := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t) // the kernel accepts
	must.Ends(t, hangs.Close)
	down := httptest.NewServer(nil)
	down.Close()
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-r.Context().Done():
				tick.Stop()
				return
			case <-tick.C:
				_, _ = w.Write([]byte(" ")) // the client may have gone
				w.(http.Flusher).Flush()
			}
		}
	}))
	t.Cleanup(slow.Close)
	return map[string]string{"down": down.URL, "hangs": "http://" + hangs.Addr().String(), "slow": slow.URL}
}
