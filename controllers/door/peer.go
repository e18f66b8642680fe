package door

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// greeting is how long it may take to connect to the leader. The address of one whose node died answers nothing.
const greeting = patience / 2

// errLeader: the leader was asked, or is not known, and there is no answer.
var errLeader = errors.New("the leader does not answer")

// peer is the Answerer of a replica that does not lead: it asks the leader. Only CREATEs that the door has in a slot are
// forwarded, and a leader forwards nothing, so a CREATE takes one step at most. It is safe for concurrent use.
type peer struct {
	leader func() string // HOST:PORT; empty while it is not known
	token  func() string
	client *http.Client
}

// newPeer returns the Answerer. The leader shows a certificate for the host of the endpoint, by the CAs of the bundle; an
// empty bundle means the CAs that the system trusts.
func newPeer(opts Options, token func() string, bundle func() ([]byte, error)) *peer {
	dial := opts.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	connect := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, greeting)
		defer cancel()
		trusted, err := trust(bundle)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: opts.Endpoint.host(), RootCAs: trusted}
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secured, nil
	}
	return &peer{opts.Leader, token, &http.Client{
		Transport:     &http.Transport{DialTLSContext: connect, MaxConnsPerHost: inFlight, MaxIdleConnsPerHost: inFlight, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// trust reads the CAs of a bundle as they are now; nil: those of the system.
func trust(bundle func() ([]byte, error)) (*x509.CertPool, error) {
	certs, err := bundle()
	if err != nil || len(certs) == 0 {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certs) {
		return nil, errors.New("the CA bundle of the webhooks has no certificate")
	}
	return pool, nil
}

// Answer implements Answerer.
func (p *peer) Answer(ctx context.Context, req Request) (Answer, error) {
	answer, err := p.forward(ctx, req)
	if err != nil {
		forwarded.WithLabelValues(resultUnanswered).Inc()
		return Answer{}, fmt.Errorf("%w: %w", errLeader, err)
	}
	forwarded.WithLabelValues(resultAnswered).Inc()
	return answer, nil
}

func (p *peer) forward(ctx context.Context, req Request) (answer Answer, err error) {
	at, token := p.leader(), p.token()
	if at == "" || token == "" {
		return answer, errors.New("its address is not known yet")
	}
	body := &bytes.Buffer{}
	if err := json.NewEncoder(body).Encode(req); err != nil {
		return answer, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+at+"/"+token+"/"+pathDecide, body)
	if err != nil {
		return answer, errors.New("its address is none")
	}
	response, err := p.client.Do(post)
	if err != nil {
		return answer, errors.Unwrap(err) // the *url.Error around it has the token
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, response.Body, 1<<10) // so that the connection is kept
		return answer, fmt.Errorf("%s says %s", at, response.Status)
	}
	return answer, json.NewDecoder(io.LimitReader(response.Body, maxReview)).Decode(&answer)
}

// leads reports whether this replica leads.
func (s *server) leads() bool {
	select {
	case <-s.elected:
		return true
	default:
		return false
	}
}

// decide answers a peer with the answer to a CREATE. A replica that does not lead forwards nothing for others.
func (s *server) decide(w http.ResponseWriter, r *http.Request) {
	if !s.leads() {
		writeError(r.Context(), w, &httpError{errors.New("this replica does not lead"), http.StatusMisdirectedRequest})
		return
	}
	var req Request
	if r.ContentLength > maxReview {
		writeError(r.Context(), w, tooLarge(maxReview))
		return
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReview)).Decode(&req)
	if err != nil || req.Claim == nil || req.Cluster == "" {
		writeError(r.Context(), w, &httpError{errors.New("this is not a claim and its logical cluster"), http.StatusBadRequest})
		return
	}
	answer, err := s.own(r.Context(), req)
	if err != nil {
		note(log.FromContext(r.Context()).WithValues("cluster", req.Cluster, "claim", req.Claim.Namespace+"/"+req.Claim.Name), err)
	}
	if err != nil && !answer.Refuse {
		writeError(r.Context(), w, &httpError{errors.New("there is no answer now"), http.StatusServiceUnavailable})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a caller that has gone is the only cause of an error here
}
