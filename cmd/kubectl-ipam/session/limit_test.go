package session

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/must"
)

// If an answer does not end, it is cut off, and the error says why. A watch goes on.
func TestLimit_EndsAnswersAndNoWatch(t *testing.T) {
	t.Parallel()
	const after = 100 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			must.Get(w.Write([]byte("{}")))(t)
			w.(http.Flusher).Flush()
			select {
			case <-time.After(after / 10):
			case <-r.Context().Done():
			}
		}
	}))
	defer server.Close()
	read := func(query string, many int64) error {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+query, nil))(t)
		response := must.Get(limit{http.DefaultTransport, after}.RoundTrip(request))(t)
		defer response.Body.Close()
		_, err := io.CopyN(io.Discard, response.Body, many)
		return err
	}
	const longer = 2 * 30 // bytes, which take three times the limit
	if late, ok := errors.AsType[*exit.TimeoutError](read("", longer)); !ok || late.After != after {
		t.Errorf("an endless answer ends with %v; want a TimeoutError after %s", late, after)
	}
	if err := read("?watch=true", longer); err != nil {
		t.Errorf("a watch ends with %v; want it to go on", err)
	}
}
