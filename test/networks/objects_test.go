package networks

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/must"
)

// A request without an answer or a decision is sent again. At most as many requests are in flight as there are
// workers.
func TestClient_SendsUnansweredRequestsAgain(t *testing.T) {
	t.Parallel()
	const workers = 3
	var sent, flying atomic.Int32
	var crowded atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if flying.Add(1) > workers {
			crowded.Store(true)
		}
		defer flying.Add(-1)
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		w.Header().Set("Content-Type", "application/json")
		switch sent.Add(1) % 3 {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":503,"message":"nobody can tell"}`))
		case 2:
			panic(http.ErrAbortHandler) // the connection breaks
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound","details":{"name":"` + name + `","kind":"ipclaims"}}`))
		}
	}))
	t.Cleanup(server.Close)
	c := must.Get(New(&rest.Config{Host: server.URL}, Options{Workers: workers}))(t)
	var group errgroup.Group
	for range 4 * workers {
		group.Go(func() error { return c.claims.remove(t.Context(), "gone") })
	}
	must.Do(t, group.Wait())
	if crowded.Load() {
		t.Errorf("more than %d requests were in flight", workers)
	}
}

// Refusals are answers, and are not sent again.
func TestClient_BelievesRefusals(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInsufficientStorage} {
		var sent atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			sent.Add(1)
			w.WriteHeader(code)
		}))
		t.Cleanup(server.Close)
		c := must.Get(New(&rest.Config{Host: server.URL}, Options{}))(t)
		if err := c.claims.remove(t.Context(), "held"); err == nil || sent.Load() != 1 {
			t.Errorf("HTTP %d: sent %d times, %v; want once, and the refusal", code, sent.Load(), err)
		}
	}
}
