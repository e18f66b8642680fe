package door

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// timeout is how long the API server waits for the door. A door that hangs delays each
	// CREATE by as much.
	timeout = 2 * time.Second
	// patience is how long an answer may take, from the request on: the rest of the timeout is
	// for the network, and for a busy API server.
	patience = time.Second
	// drainTimeout and drainPatience are the same for the DELETE of a pool. A release takes half a second, or several
	// seconds on a busy server.
	drainTimeout, drainPatience = 4 * time.Second, 3 * time.Second
	// releaseTimeout and releasePatience are the same for the other DELETEs, which may have to wait for their turn. A late
	// answer is better than the answer that nobody can tell.
	releaseTimeout, releasePatience = 10 * time.Second, 9 * time.Second
)

// server decides admission requests. It is safe for concurrent use.
type server struct {
	own    atomic.Pointer[Decider] // of this replica, once it leads; until then it asks the leader
	leader Decider
	// only is the logical cluster of all claims; empty on kcp, where each claim names its own.
	only  ledger.ClusterName
	token func() string // empty while it is not known
	// known are the slots of requests with the token. Requests without it use the slots anybody, and so keep no request
	// with the token waiting.
	known, anybody slots
	sleepers       sleepers
	dryRuns        sleepers // of DELETEs
	also           map[string]http.Handler
}

// newServer returns a server that asks the leader, until its own replica leads.
func newServer(leader Decider, only ledger.ClusterName, token func() string) *server {
	return &server{
		leader: leader, only: only, token: token, known: known(), anybody: anybody(), dryRuns: sleepers{share: dryShare},
	}
}

// decider returns the Decider to ask.
func (s *server) decider() Decider {
	if own := s.own.Load(); own != nil {
		return *own
	}
	return s.leader
}

// handler serves the paths of the door.
func (s *server) handler(logger logr.Logger) http.Handler {
	mux := http.NewServeMux()
	missed := answers.WithLabelValues(resultUnanswered).Inc
	serve := func(path string, most time.Duration, next http.Handler) {
		mux.Handle("POST /"+path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(log.IntoContext(r.Context(), logger), most)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		}))
	}
	serve("{token}/"+pathAnswer, patience,
		s.secret(path{s.known, &s.sleepers, reviews{maxReview, "ipclaims", s.answer}, missed, false}))
	serve("{token}/"+pathKeep, patience,
		s.secret(path{s.known, &s.sleepers, reviews{maxReview, "ipclaims", keep}, func() {}, false}))
	for name, led := range leading {
		serve("{token}/"+name, led.most, s.secret(path{s.known, &s.sleepers, s.led(led), func() {}, led.light}))
	}
	serve("{token}/"+pathDrain, drainPatience,
		s.secret(path{s.known, &s.sleepers, reviews{maxReview, "ippools", s.drain}, func() {}, true}))
	serve("{token}/"+pathRelease, releasePatience,
		s.secret(path{s.known, &s.sleepers, reviews{maxReview, "ipallocations", s.release}, func() {}, true}))
	serve("{token}/"+pathClose, releasePatience,
		s.secret(path{s.known, &s.sleepers, reviews{maxReview, "ipclaims", s.closeRange}, func() {}, true}))
	serve("{token}/"+pathRetire, releasePatience,
		s.secret(path{s.known, &s.sleepers, reviews{maxReview, "ippools", s.retirePool}, func() {}, true}))
	serve("{token}/"+pathClass, releasePatience,
		s.secret(path{s.known, &s.sleepers, reviews{maxReview, "ipclasses", s.retireClass}, func() {}, true}))
	serve(pathRefuse, patience, path{s.anybody, &s.sleepers, reviews{maxRefused, "ipclaims", refuse}, func() {}, false})
	for pattern, handler := range s.also {
		mux.Handle(pattern, handler)
	}
	return mux
}

// secret serves requests with the token, and trusts their connections. Any other request is answered with Not Found.
func (s *server) secret(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := s.token()
		if token == "" || subtle.ConstantTimeCompare([]byte(r.PathValue("token")), []byte(token)) != 1 {
			http.NotFound(w, r)
			return
		}
		if conn, ok := r.Context().Value(connection{}).(Trustable); ok {
			conn.Trust()
		}
		next.ServeHTTP(w, r)
	})
}

// Trustable is a connection that can become trusted. From then on its listener closes other connections first.
type Trustable interface{ Trust() }

// connection is the key by which the context of a request has its connection, below TLS.
type connection struct{}

func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return context.WithValue(ctx, connection{}, conn)
}

// path serves as many requests at once as there are slots.
type path struct {
	slots    slots
	sleepers *sleepers
	serves   http.Handler
	// missed is called when a request found no slot in time.
	missed func()
	// light says that a request keeps little of its object in memory while it sleeps. So a large request, too, gives up
	// its slot.
	light bool
}

func (p path) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	slots := p.slots.of(r)
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-r.Context().Done():
		p.missed()
		writeError(r.Context(), w, &httpError{errors.New("too many requests at once"), http.StatusServiceUnavailable})
		return
	}
	ctx := r.Context()
	if p.light || slots == p.slots.small {
		ctx = context.WithValue(ctx, seated{}, seat{slots, p.sleepers})
	}
	p.serves.ServeHTTP(w, r.WithContext(ctx))
}

// reviews serves admission requests, which a reviewer decides.
type reviews struct {
	// most bounds the body of a request, in bytes.
	most int64
	// resource is the plural of the kind.
	resource string
	decide   reviewer
}

func (v reviews) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := readReview(w, r, v.most, v.resource)
	if err != nil {
		writeError(r.Context(), w, err)
		return
	}
	resp, err := v.decide(r.Context(), req)
	if err != nil {
		writeError(r.Context(), w, err)
		return
	}
	writeReview(w, req, resp)
}

// serving returns the server that a manager runs on every replica. Connections stay open for long, because a new one
// costs more than an answer.
//
// It speaks HTTP/1.1 alone. Over HTTP/2 an API server would send all requests over one connection, and would take 45
// seconds to give up that connection if the door hangs. Over HTTP/1.1 it closes a connection when its request times
// out, and the next connection may lead to another replica.
func serving(
	listener net.Listener, certificate func() (*tls.Certificate, error), handler http.Handler, logger logr.Logger,
) *manager.Server {
	secure := tls.NewListener(listener, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
	})
	return &manager.Server{
		Name:     "webhooks",
		Listener: secure,
		Server: &http.Server{
			Handler: handler, MaxHeaderBytes: 1 << 16,
			ReadHeaderTimeout: timeout, ReadTimeout: timeout, WriteTimeout: max(2*timeout, releaseTimeout),
			IdleTimeout: 10 * time.Minute,
			ConnContext: withConnection,
			ErrorLog:    slog.NewLogLogger(logr.ToSlogHandler(logger), slog.LevelDebug),
		},
		ShutdownTimeout: new(timeout),
	}
}

const (
	// inFlight is how many requests with the token are read and decided at once, not counting large ones. Further ones
	// wait. Together with the two constants below, it bounds the memory that the requests take.
	inFlight = 128
	// largeBody is the size from which on a body counts as large, in bytes. Decoded JSON may take twenty times its size in
	// memory. Hardly any claim is as large.
	largeBody = 64 << 10
	// largeInFlight is how many large requests with the token are read and decided at once.
	largeInFlight = 2
	// anybodyInFlight is how many requests without the token are read and decided at once. A
	// client that takes all of these slots gains nothing: the API server then refuses as the door would.
	anybodyInFlight = 8
)

// slots count the requests that are being read and decided. Large requests with the token have slots of their own, so
// that they keep only large ones waiting.
type slots struct{ small, large chan struct{} }

// known are the slots of requests with the token.
func known() slots {
	return slots{small: make(chan struct{}, inFlight), large: make(chan struct{}, largeInFlight)}
}

// anybody are the slots of requests without the token.
func anybody() slots {
	all := make(chan struct{}, anybodyInFlight)
	return slots{small: all, large: all}
}

// of returns the slots for a request. A request that does not say how long it is counts as large.
func (s slots) of(r *http.Request) chan struct{} {
	if r.ContentLength >= 0 && r.ContentLength < largeBody {
		return s.small
	}
	return s.large
}
