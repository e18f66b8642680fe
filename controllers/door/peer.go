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

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// greeting is how long it may take to connect to the leader. If the leader's node has died, nothing answers at its
// address.
const greeting = patience / 2

// errLeader: the leader is not known, or has given no answer.
var errLeader = errors.New("the leader does not answer")

// peer is the Decider of a replica that does not lead: it asks the leader. It forwards only requests that have a slot,
// and a leader forwards nothing, so a request is forwarded once at most. It is safe for concurrent use.
type peer struct {
	leader func(context.Context) (string, error) // HOST:PORT; empty while it is not known
	token  func() string
	client *http.Client
}

// newPeer returns the Decider. The leader shows a certificate for the host of the endpoint, signed by a CA of the
// bundle. An empty bundle means the CAs that the system trusts.
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
		Transport: &http.Transport{
			DialTLSContext: connect, MaxConnsPerHost: inFlight, MaxIdleConnsPerHost: inFlight, IdleConnTimeout: time.Minute,
		},
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
func (p *peer) Answer(ctx context.Context, req Request) (answer Answer, err error) {
	err = p.ask(ctx, pathDecide, req, &answer)
	if err != nil {
		forwarded.WithLabelValues(resultUnanswered).Inc()
		return Answer{}, err
	}
	forwarded.WithLabelValues(resultAnswered).Inc()
	return answer, nil
}

// Drained implements Drainer. If the leader does not answer, the DELETE does not wait.
func (p *peer) Drained(ctx context.Context, pool Pool) {
	if err := p.ask(ctx, pathDrained, pool, &struct{}{}); err != nil {
		log.FromContext(ctx).V(1).Info("a DELETE does not wait", "cluster", pool.Cluster, "pool", pool.Name,
			"why", err.Error())
	}
}

// A deletion is a peer's question about the DELETE of a record, a claim or a pool, and said is the leader's answer.
type (
	deletion[T any] struct {
		Cluster ledger.ClusterName `json:"cluster"`
		Object  T                  `json:"object"`
		DryRun  bool               `json:"dryRun,omitempty"`
	}
	said struct {
		Gone   bool   `json:"gone,omitempty"`
		Inside string `json:"inside,omitempty"`
		Unsure string `json:"unsure,omitempty"` // why nobody can tell; empty: the leader can
	}
)

func (s said) err() error {
	if s.Unsure == "" {
		return nil
	}
	return fmt.Errorf("the leader says: %s", s.Unsure)
}

func unsure(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Released implements Releaser.
func (p *peer) Released(ctx context.Context, in ledger.ClusterName, record *ipamv1alpha1.IPAllocation) (bool, error) {
	var answer said
	err := p.ask(ctx, pathReleased, deletion[*ipamv1alpha1.IPAllocation]{Cluster: in, Object: record}, &answer)
	return answer.Gone, errors.Join(err, answer.err())
}

// CloseRange implements Closer.
func (p *peer) CloseRange(
	ctx context.Context, in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, dry bool,
) (string, error) {
	return p.inside(ctx, pathClosed, deletion[*ipamv1alpha1.IPClaim]{Cluster: in, Object: claim, DryRun: dry})
}

// RetirePool implements Retirer.
func (p *peer) RetirePool(
	ctx context.Context, in ledger.ClusterName, pool *ipamv1alpha1.IPPool, dry bool,
) (string, error) {
	return p.inside(ctx, pathRetired, deletion[*ipamv1alpha1.IPPool]{Cluster: in, Object: pool, DryRun: dry})
}

// RetireClass implements Retirer.
func (p *peer) RetireClass(ctx context.Context, class string) (string, error) {
	return p.inside(ctx, pathClassed, class)
}

// inside asks the leader what keeps an object from being deleted.
func (p *peer) inside(ctx context.Context, path string, question any) (string, error) {
	var answer said
	err := p.ask(ctx, path, question, &answer)
	return answer.Inside, errors.Join(err, answer.err())
}

// ask asks the leader, and decodes its answer.
func (p *peer) ask(ctx context.Context, path string, question, answer any) error {
	if err := p.forward(ctx, path, question, answer); err != nil {
		return fmt.Errorf("%w: %w", errLeader, err)
	}
	return nil
}

func (p *peer) forward(ctx context.Context, path string, question, answer any) error {
	at, err := p.leader(ctx)
	token := p.token()
	if err != nil || at == "" || token == "" {
		return errors.Join(errors.New("its address is not known yet"), err)
	}
	body := &bytes.Buffer{}
	if err := json.NewEncoder(body).Encode(question); err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+at+"/"+token+"/"+path, body)
	if err != nil {
		return errors.New("its address is none")
	}
	response, err := p.client.Do(post)
	if err != nil {
		return errors.Unwrap(err) // the *url.Error around it has the token
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		_, _ = io.CopyN(io.Discard, response.Body, 1<<10) // so that the connection is kept
		return fmt.Errorf("%s says %s", at, response.Status)
	}
	return json.NewDecoder(io.LimitReader(response.Body, maxReview)).Decode(answer)
}

// question is a kind of question that a peer asks the leader.
type question struct {
	most   time.Duration // how long the answer may take
	light  bool          // see path
	decide func(ctx context.Context, s *server, body io.Reader) (answer any, err error)
}

// errQuestion: the body is no question.
var errQuestion = &httpError{errors.New("this is not an object and its logical cluster"), http.StatusBadRequest}

// leading are the questions, by their paths.
var leading = map[string]question{
	pathDecide: {patience, false, func(ctx context.Context, s *server, body io.Reader) (any, error) {
		var req Request
		if err := json.NewDecoder(body).Decode(&req); err != nil || req.Claim == nil || req.Cluster == "" {
			return nil, errQuestion
		}
		answer, err := s.ask(ctx, req)
		if err != nil {
			note(log.FromContext(ctx).WithValues("cluster", req.Cluster, "claim", req.Claim.Namespace+"/"+req.Claim.Name), err)
		}
		if err != nil && !answer.Refuse {
			return nil, &httpError{errors.New("there is no answer now"), http.StatusServiceUnavailable}
		}
		return answer, nil
	}},
	pathDrained: {drainPatience, true, func(ctx context.Context, s *server, body io.Reader) (any, error) {
		var pool Pool
		if err := json.NewDecoder(body).Decode(&pool); err != nil || pool.Cluster == "" {
			return nil, errQuestion
		}
		_ = Sleep(ctx, pool.Cluster, func(ctx context.Context) error {
			s.decider().Drained(ctx, pool)
			return nil
		})
		return struct{}{}, nil
	}},
	pathReleased: {releasePatience, true, func(ctx context.Context, s *server, body io.Reader) (any, error) {
		var of deletion[*ipamv1alpha1.IPAllocation]
		if err := json.NewDecoder(body).Decode(&of); err != nil || of.Object == nil || of.Cluster == "" {
			return nil, errQuestion
		}
		var answer said
		tenant := of.Cluster.Tenant(of.Object.Namespace)
		answer.Unsure = unsure(SleepInTurn(ctx, tenant, func(ctx context.Context) (err error) {
			answer.Gone, err = s.decider().Released(ctx, of.Cluster, of.Object)
			return err
		}))
		return answer, nil
	}},
	pathClosed: {releasePatience, true, func(ctx context.Context, s *server, body io.Reader) (any, error) {
		var of deletion[*ipamv1alpha1.IPClaim]
		if err := json.NewDecoder(body).Decode(&of); err != nil || of.Object == nil || of.Cluster == "" {
			return nil, errQuestion
		}
		if of.DryRun {
			ctx = s.dryRuns.among(ctx)
		}
		var answer said
		tenant := of.Cluster.Tenant(of.Object.Namespace)
		answer.Unsure = unsure(SleepInTurn(ctx, tenant, func(ctx context.Context) (err error) {
			answer.Inside, err = s.decider().CloseRange(ctx, of.Cluster, of.Object, of.DryRun)
			return err
		}))
		return answer, nil
	}},
	pathRetired: {releasePatience, true, func(ctx context.Context, s *server, body io.Reader) (any, error) {
		var of deletion[*ipamv1alpha1.IPPool]
		if err := json.NewDecoder(body).Decode(&of); err != nil || of.Object == nil || of.Cluster == "" {
			return nil, errQuestion
		}
		var answer said
		answer.Unsure = unsure(SleepInTurn(ctx, of.Cluster, func(ctx context.Context) (err error) {
			answer.Inside, err = s.decider().RetirePool(ctx, of.Cluster, of.Object, of.DryRun)
			return err
		}))
		return answer, nil
	}},
	pathClassed: {releasePatience, true, func(ctx context.Context, s *server, body io.Reader) (any, error) {
		var class string
		if err := json.NewDecoder(body).Decode(&class); err != nil || class == "" {
			return nil, errQuestion
		}
		used, err := s.decider().RetireClass(ctx, class)
		return said{Inside: used, Unsure: unsure(err)}, nil
	}},
}

// led answers a question of a peer. A replica that does not lead refuses: it forwards no question of another replica.
func (s *server) led(q question) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.own.Load() == nil:
			writeError(r.Context(), w, &httpError{errors.New("this replica does not lead"), http.StatusMisdirectedRequest})
			return
		case r.ContentLength > maxReview:
			writeError(r.Context(), w, tooLarge(maxReview))
			return
		}
		answer, err := q.decide(r.Context(), s, http.MaxBytesReader(w, r.Body, maxReview))
		if err != nil {
			writeError(r.Context(), w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // a caller that has gone is the only cause of an error here
	})
}
