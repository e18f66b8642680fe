package door

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

var secretKey = client.ObjectKey{Namespace: "ipam-system", Name: SecretName}

// answererFunc is an Answerer.
type answererFunc func(context.Context, Request) (Answer, error)

func (f answererFunc) Answer(ctx context.Context, req Request) (Answer, error) { return f(ctx, req) }

// scene is a door that serves.
type scene struct {
	*testing.T
	base     string
	token    string
	client   *http.Client
	asked    chan Request  // what the Answerer was asked, if the scene was made by answering
	accepted *atomic.Int32 // counts its connections
	// trusted counts how often a request has made its connection trusted.
	trusted *atomic.Int32
}

// trusting is a listener that counts its connections, and how often they are trusted.
type trusting struct {
	net.Listener
	accepted, trusted *atomic.Int32
}

type trustedConn struct {
	net.Conn
	trusted *atomic.Int32
}

func (l trusting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return trustedConn{conn, l.trusted}, err
}

func (c trustedConn) Trust() { c.trusted.Add(1) }

// open opens a door on kcp. If a cluster is given, the door is without kcp, and serves this cluster alone.
func open(t *testing.T, answerer Answerer, only ledger.ClusterName) *scene {
	t.Helper()
	ring := newRing(t, newFake())
	return serve(t, ring, newServer(decider{answerer, deletes{}}, only, ring.token))
}

// newRing returns a keyring with the keys of a Secret.
func newRing(t *testing.T, c client.Client) *keyring {
	t.Helper()
	ring := newKeyring(c, secretKey, "127.0.0.1", clocktesting.NewFakeClock(time.Now()))
	must.Do(t, ring.refresh(t.Context()))
	return ring
}

// serve runs a server until the test ends.
func serve(t *testing.T, ring *keyring, server *server) *scene {
	t.Helper()
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	accepted, trusted := &atomic.Int32{}, &atomic.Int32{}
	served := serving(trusting{listener, accepted, trusted}, ring.Certificate, server.handler(logr.Discard()), logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- served.Start(ctx) }()
	s := &scene{T: t, base: "https://" + listener.Addr().String(), token: ring.token(), client: clientOf(t, ring), accepted: accepted, trusted: trusted}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ends with %v, want nil", err)
		}
	})
	return s
}

// answering opens a door on kcp whose Answerer gives this answer to every CREATE, and notes what it was asked.
func answering(t *testing.T, answer Answer, err error) *scene {
	t.Helper()
	asked := make(chan Request, 1000)
	s := open(t, answererFunc(func(_ context.Context, req Request) (Answer, error) {
		asked <- req
		return answer, err
	}), "")
	s.asked = asked
	return s
}

// clientOf returns a client that trusts the CAs of a keyring, and no others.
func clientOf(t *testing.T, ring *keyring) *http.Client {
	t.Helper()
	bundle := must.Get(ring.Bundle())(t)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatalf("the bundle has no certificate:\n%s", bundle)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
}

func newFake() client.WithWatch {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
}

// post sends a body to a path, and returns the HTTP status and the body of the response.
func (s *scene) post(path, contentType string, body []byte) (int, []byte) {
	s.Helper()
	response := must.Get(s.send(path, contentType, body))(s)
	defer response.Body.Close()
	got := must.Get(io.ReadAll(response.Body))(s)
	return response.StatusCode, got
}

func (s *scene) send(path, contentType string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	return s.client.Do(request)
}

// review sends an admission request to a path, and returns the answer to it.
func (s *scene) review(path string, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	s.Helper()
	code, body := s.post(path, "application/json; charset=utf-8", reviewOf(s.T, req))
	if code != http.StatusOK {
		s.Fatalf("POST %s = %d %s, want 200", path, code, body)
	}
	review := &admissionv1.AdmissionReview{}
	must.Do(s, json.Unmarshal(body, review))
	if review.Kind != "AdmissionReview" || review.Response == nil || review.Response.UID != req.UID {
		s.Fatalf("the response is %s, want an AdmissionReview for %s", body, req.UID)
	}
	return review.Response
}

func (s *scene) answerPath() string { return "/" + s.token + "/answer" }
func (s *scene) keepPath() string   { return "/" + s.token + "/keep" }
func (s *scene) decidePath() string { return "/" + s.token + "/decide" }

// created sends the CREATE of an object, which must be allowed, and returns the patched object.
func (s *scene) created(object string) string {
	s.Helper()
	return patched(s.T, object, s.review(s.answerPath(), creating(object)))
}

// creating returns the admission request for the CREATE of an object. The object has managed fields, as the server
// records them, unless it brings its own.
func creating(object string) *admissionv1.AdmissionRequest {
	if !strings.Contains(object, `"managedFields"`) {
		object = strings.Replace(object, `{"metadata":{"`, `{"metadata":{"managedFields":[{"manager":"kubectl"}],"`, 1)
	}
	resource := metav1.GroupVersionResource(ipamv1alpha1.GroupVersion.WithResource("ipclaims"))
	return &admissionv1.AdmissionRequest{
		UID: "4711", Resource: resource, Namespace: "default", Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: []byte(object)},
	}
}

// updating returns the admission request for an UPDATE from one object to another.
func updating(from, to string) *admissionv1.AdmissionRequest {
	req := creating(to)
	req.Operation, req.OldObject.Raw = admissionv1.Update, []byte(from)
	return req
}

func reviewOf(t *testing.T, req *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	body := must.Get(json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: req,
	}))(t)
	return body
}

// patched applies the patch of a response to an object, as the API server does, and returns the result.
func patched(t *testing.T, object string, resp *admissionv1.AdmissionResponse) string {
	t.Helper()
	if !resp.Allowed {
		t.Fatalf("the request is refused: %+v", resp.Result)
	}
	if resp.Patch == nil {
		return object
	}
	if resp.PatchType == nil || *resp.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Fatalf("the type of the patch is %v, want JSONPatch", resp.PatchType)
	}
	patch, err := jsonpatch.DecodePatch(resp.Patch)
	if err != nil {
		t.Fatalf("%v in the patch %s", err, resp.Patch)
	}
	got, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatalf("%v when %s is applied to %s", err, resp.Patch, object)
	}
	return string(got)
}
