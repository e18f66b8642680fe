package framework

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/must"
)

// endpoints is where kcp serves the virtual workspaces of exports.
const endpoints = "/services/apiexport/"

// Link stands between a controller and kcp. A test can disturb it: it can cut off the endpoints of exports, or make
// kcp answer as if it had lost objects. Its methods are safe for concurrent use.
type Link struct {
	server *httptest.Server
	kcp    *url.URL

	mu     sync.Mutex
	away   bool   // endpoints do not answer
	short  string // lists of this resource are empty
	old    string // watches of this resource are refused, so that it is listed again
	deaf   string // watches of this resource don't tell of deletions
	fails  func(*http.Request) bool
	failed int           // requests that were answered 503
	news   chan struct{} // closed when something above changes: then watches end
	turns  int           // refused requests to watch the resource old
}

// Link puts a link between kcp and another controller of the platform. That controller is not started, and gets these
// flags.
func (p *Platform) Link(t testing.TB, name string, flags ...string) (*Link, *Platform) {
	t.Helper()
	kcp := must.Get(url.Parse(p.options.Identity.Host))(t)
	tlsConfig := must.Get(rest.TLSConfigFor(p.options.Identity))(t)
	l := &Link{kcp: kcp, news: make(chan struct{})}
	l.server = httptest.NewTLSServer(l.proxy(tlsConfig))
	t.Cleanup(l.server.Close)

	identity := rest.CopyConfig(p.options.Identity)
	identity.Host = l.server.URL + kcp.Path
	identity.CAFile = ""
	identity.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.server.Certificate().Raw})
	return l, p.replica(t, name, identity, flags...) // which ends before the link goes
}

// Cut makes the endpoints of exports not answer until Restore.
func (l *Link) Cut() { l.change(func() { l.away = true }) }

// Shorten makes lists of a resource, like "ipclaims", empty at the endpoints until Restore. It also refuses watches
// of the resource, so that the controller lists it. It returns when the controller has received such a list.
func (l *Link) Shorten(t testing.TB, resource string) {
	t.Helper()
	l.change(func() { l.short, l.old, l.turns = resource, resource, 0 })
	l.waitListed(t)
}

// Relist makes the controller list a resource, like "ipclaims", again at the endpoints, as after a restart of kcp. It
// returns when the controller has received the list.
func (l *Link) Relist(t testing.TB, resource string) {
	t.Helper()
	l.change(func() { l.old, l.turns = resource, 0 })
	l.waitListed(t)
	l.change(func() { l.old = "" })
}

func (l *Link) waitListed(t testing.TB) {
	t.Helper()
	Eventually(t, "a list to be taken in", func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		// The controller asks to watch from where it was, then from the start, and then lists. When it asks once more, it
		// has the list.
		if l.turns < 3 {
			return fmt.Errorf("it was turned down %d times", l.turns)
		}
		return nil
	})
}

// Fail answers 503 to all requests that match, until Restore. It ends the watches, which clients then open again.
func (l *Link) Fail(match func(*http.Request) bool) {
	l.change(func() { l.fails, l.failed = match, 0 })
}

// WaitFailed waits until that many requests were answered 503 since Fail.
func (l *Link) WaitFailed(t testing.TB, count int) {
	t.Helper()
	Eventually(t, "requests to fail", func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed < count {
			return fmt.Errorf("%d have failed, want %d", l.failed, count)
		}
		return nil
	})
}

// unavailable answers 503 to a request that has to fail, and reports whether it did.
func (l *Link) unavailable(w http.ResponseWriter, r *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails == nil || !l.fails(r) {
		return false
	}
	l.failed++
	w.WriteHeader(http.StatusServiceUnavailable)
	return true
}

// Deafen makes watches of a resource, like "ipclaims", leave out deletions at the endpoints until Restore.
func (l *Link) Deafen(resource string) { l.change(func() { l.deaf = resource }) }

// Restore ends all disturbances of the link.
func (l *Link) Restore() {
	l.change(func() { l.away, l.short, l.old, l.deaf, l.fails = false, "", "", "", nil })
}

func (l *Link) change(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
	close(l.news)
	l.news = make(chan struct{})
}

func (l *Link) proxy(tlsConfig *tls.Config) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: l.kcp.Scheme, Host: l.kcp.Host})
			r.Out.Header.Del("Accept-Encoding")
		},
		Transport:      &http.Transport{TLSClientConfig: tlsConfig, DisableCompression: true},
		FlushInterval:  -1,
		ModifyResponse: l.modify,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		away, old, news := l.away, l.old, l.news
		l.mu.Unlock()
		if away && strings.HasPrefix(r.URL.Path, endpoints) {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		if l.unavailable(w, r) {
			return
		}
		if r.URL.Query().Get("watch") == "true" {
			l.watch(w, r, proxy, news, old)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// watch answers a watch until the link changes. If old names the resource of the watch, watch refuses it.
func (l *Link) watch(w http.ResponseWriter, r *http.Request, proxy http.Handler, news <-chan struct{}, old string) {
	if ofAll(r, old) {
		l.mu.Lock()
		l.turns++
		l.mu.Unlock()
		refuse(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go func() {
		select {
		case <-news:
			cancel()
		case <-ctx.Done():
		}
	}()
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// ofAll reports whether a request asks an endpoint for all objects of a resource.
func ofAll(r *http.Request, resource string) bool {
	return resource != "" && r.Method == http.MethodGet &&
		strings.HasPrefix(r.URL.Path, endpoints) && strings.HasSuffix(r.URL.Path, "/"+resource)
}

// refuse answers that the revision to watch from is too old, or that the list has to be requested by itself.
func refuse(w http.ResponseWriter, r *http.Request) {
	code, reason := http.StatusGone, "Expired"
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		code, reason = http.StatusUnprocessableEntity, "Invalid"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
}

// modify replaces kcp's address in answers by the link's, and empties the lists of the resource short.
func (l *Link) modify(r *http.Response) error {
	path := r.Request.URL.Path
	l.mu.Lock()
	short, deaf := l.short, l.deaf
	l.mu.Unlock()
	switch {
	case strings.Contains(path, "/apiexportendpointslices"):
		r.Body = edited(r.Body, l.led)
	case ofAll(r.Request, deaf):
		r.Body = edited(r.Body, undeleted)
	case ofAll(r.Request, short):
		return empty(r)
	default:
		return nil
	}
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	return nil
}

// led returns a line with the link's address in place of kcp's, where an endpoint follows.
func (l *Link) led(line []byte) []byte {
	return bytes.ReplaceAll(line, []byte(l.kcp.Scheme+"://"+l.kcp.Host+endpoints), []byte(l.server.URL+endpoints))
}

// undeleted returns a line of a watch, or nothing if the line is a deletion.
func undeleted(line []byte) []byte {
	if bytes.HasPrefix(line, []byte(`{"type":"DELETED"`)) {
		return nil
	}
	return line
}

// edited returns a body whose lines are edited one by one.
func edited(body io.ReadCloser, edit func([]byte) []byte) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		defer body.Close() //nolint:errcheck // It was read to its end, or to where that is known.
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadBytes('\n')
			if _, failed := writer.Write(edit(line)); failed != nil {
				return
			}
			if err != nil {
				writer.CloseWithError(err)
				return
			}
		}
	}()
	return reader
}

// empty removes the items from a list.
func empty(r *http.Response) error {
	list := map[string]any{}
	err := json.NewDecoder(r.Body).Decode(&list)
	if err != nil {
		return err
	}
	list["items"] = []any{}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}
