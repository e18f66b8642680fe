package door

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/test/must"
)

const anyClaim = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{}}`

// Without the token, all paths except /refuse are not found. Requests that make no sense fail. No response shows the
// token.
func TestServer_RejectsHostileRequests(t *testing.T) {
	s := answering(t, boundAnswer, nil)
	sane := reviewOf(t, creating(anyClaim))
	other, deleted, old := creating(anyClaim), creating(anyClaim), bytes.ReplaceAll(sane, []byte("admission.k8s.io/v1"), []byte("admission.k8s.io/v1beta1"))
	other.Resource.Resource = "ippools"
	deleted.SubResource = "status"
	padded := func(n int) []byte {
		return slices.Concat(sane[:len(sane)-1], bytes.Repeat([]byte(" "), n), []byte("}"))
	}
	const media = "application/json"
	for name, tt := range map[string]struct {
		path, media string
		body        []byte
		want        int
	}{
		"no token":             {"/answer", media, sane, http.StatusNotFound},
		"an empty token":       {"//answer", media, sane, http.StatusNotFound},
		"another token":        {"/" + strings.Repeat("A", len(s.token)) + "/answer", media, sane, http.StatusNotFound},
		"a shorter token":      {"/" + s.token[:10] + "/keep", media, sane, http.StatusNotFound},
		"another path":         {"/" + s.token + "/other", media, sane, http.StatusNotFound},
		"no content type":      {s.answerPath(), "", sane, http.StatusUnsupportedMediaType},
		"another content type": {s.answerPath(), "text/plain", sane, http.StatusUnsupportedMediaType},
		"no JSON":              {s.answerPath(), media, []byte("<xml/>"), http.StatusBadRequest},
		"no request":           {s.answerPath(), media, []byte("{}"), http.StatusBadRequest},
		"an older review":      {s.answerPath(), media, old, http.StatusBadRequest},
		"another resource":     {s.answerPath(), media, reviewOf(t, other), http.StatusBadRequest},
		"a subresource":        {s.answerPath(), media, reviewOf(t, deleted), http.StatusBadRequest},
		"a huge body":          {s.answerPath(), media, padded(maxReview), http.StatusRequestEntityTooLarge},
		"a body for the token": {"/refuse", media, padded(maxRefused), http.StatusRequestEntityTooLarge},
		"a large body":         {s.answerPath(), media, padded(maxReview - len(sane)), http.StatusOK},
		"a refused body":       {"/refuse", media, padded(maxRefused - len(sane)), http.StatusOK},
		"no object":            {s.answerPath(), media, reviewOf(t, creating(`null`)), http.StatusInternalServerError},
		"a list":               {s.answerPath(), media, reviewOf(t, creating(`[]`)), http.StatusInternalServerError},
		"sane":                 {s.answerPath(), media, sane, http.StatusOK},
	} {
		if got, body := s.post(tt.path, tt.media, tt.body); got != tt.want || bytes.Contains(body, []byte(s.token)) {
			t.Errorf("%s: the response is %d %.200s, want %d and no token", name, got, body, tt.want)
		}
	}
}

// A request with the token makes its connection trusted. Other requests do not.
func TestServer_TrustsTheToken(t *testing.T) {
	s := answering(t, boundAnswer, nil)
	body := reviewOf(t, creating(anyClaim))
	for _, path := range []string{"/refuse", "/answer", "/" + strings.Repeat("A", len(s.token)) + "/answer"} {
		if s.post(path, "application/json", body); s.trusted.Load() != 0 {
			t.Errorf("a connection with a request to %s is trusted", path)
		}
	}
	if s.post(s.answerPath(), "application/json", body); s.trusted.Load() != 1 {
		t.Errorf("%d connections are trusted after a request with the token, want 1", s.trusted.Load())
	}
}

// A body is not read beyond the limit, whatever its length was said to be.
func TestReadReview_StopsAtTheLimit(t *testing.T) {
	body := &endless{}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/refuse", body)
	request.Header.Set("Content-Type", "application/json")
	_, err := readReview(httptest.NewRecorder(), request, maxReview, "ipclaims")
	if coded, ok := errors.AsType[*httpError](err); !ok || coded.code != http.StatusRequestEntityTooLarge {
		t.Errorf("readReview = %v, want it to be too large", err)
	}
	if most := 2 * maxReview; body.read > most {
		t.Errorf("%d bytes were read, want %d at most", body.read, most)
	}
}

// The fields of a review that nobody reads take no memory, whatever a client writes into them.
func TestReadReview_TakesNoMemoryForUnusedFields(t *testing.T) {
	review := reviewOf(t, creating(anyClaim))
	for _, hostile := range []string{
		`"userInfo":{"extra":{"x":[` + strings.Repeat(`"",`, maxReview/4) + `""]}},`,
		`"userInfo":{"groups":[` + strings.Repeat(`"",`, maxReview/4) + `""]},`,
		`"options":{"x":[` + strings.Repeat(`{},`, maxReview/4) + `{}]},`,
	} {
		body := bytes.Replace(review, []byte(`"request":{`), []byte(`"request":{`+hostile), 1)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/refuse", bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := readReview(httptest.NewRecorder(), request, maxReview, "ipclaims")
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("readReview: %v", err)
		}
		// The buffer doubles until it holds the body.
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(5*len(body)); took > most {
			t.Errorf("a review of %d bytes with %.20s took %d bytes to read, want %d at most", len(body), hostile, took, most)
		}
	}
}

// endless is a body of blanks.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

// A client connects only if it trusts the CA of the door, and speaks a current version of TLS. The door speaks
// HTTP/1.1.
func TestServer_SpeaksCurrentTLSAndHTTP1(t *testing.T) {
	s := answering(t, boundAnswer, nil)
	address := strings.TrimPrefix(s.base, "https://")
	for why, config := range map[string]*tls.Config{
		"an old version of TLS":    {InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10},
		"the system's trust alone": {},
	} {
		dialer := &tls.Dialer{Config: config}
		if conn, err := dialer.DialContext(t.Context(), "tcp", address); err == nil {
			t.Errorf("a client with %s is connected, want it refused", why)
			conn.Close()
		}
	}
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/refuse", strings.NewReader("{}")))(t)
	response := must.Get(s.client.Do(request))(t)
	defer response.Body.Close()
	if response.ProtoMajor != 1 {
		t.Errorf("the door speaks %s; want HTTP/1.1, so that a replica that hangs keeps one request, and not all", response.Proto)
	}
}

// A request that finds no slot in time is counted as unanswered. Requests without the token, and large ones, take no
// slot from the other requests.
func TestServer_LimitsRequestsInFlight(t *testing.T) {
	entered, leave := make(chan struct{}, inFlight+largeInFlight), make(chan struct{})
	s := open(t, answererFunc(func(context.Context, Request) (Answer, error) {
		entered <- struct{}{}
		<-leave
		return boundAnswer, nil
	}), "")
	before := counted()["unanswered"]
	var others sync.WaitGroup
	small := reviewOf(t, creating(anyClaim))
	large := slices.Concat(small, bytes.Repeat([]byte(" "), largeBody))
	for _, those := range []struct {
		n    int
		body []byte
	}{{largeInFlight, large}, {inFlight, small}} {
		for range those.n { // one after the other: none is kept from its slot by the work of the others
			ended := make(chan struct{})
			others.Go(func() {
				defer close(ended)
				response, err := s.send(s.answerPath(), "application/json", those.body)
				if err == nil { // else it took longer than the door lets it
					response.Body.Close()
				}
			})
			select {
			case <-entered:
			case <-ended:
				t.Fatalf("a request of %d bytes has found no slot, want %d", len(those.body), those.n)
			}
		}
		if code, body := s.post(s.answerPath(), "application/json", those.body); code != http.StatusServiceUnavailable {
			t.Errorf("beside %d requests of %d bytes another one gets %d %s, want 503", those.n, len(those.body), code, body)
		}
	}
	if got := counted()["unanswered"] - before; got != 2 {
		t.Errorf("%v requests are counted as unanswered, want 2", got)
	}
	if code, body := s.post("/refuse", "application/json", small); code != http.StatusOK {
		t.Errorf("beside %d requests /refuse answers %d %s, want 200", inFlight, code, body)
	}
	close(leave)
	others.Wait()
}

// The path /refuse refuses every request, and needs no token.
func TestRefuse_RefusesEveryRequest(t *testing.T) {
	s := answering(t, boundAnswer, nil)
	req := creating(`{"metadata":{"name":"a"},"spec":{"unmetPolicy":"Refuse"}}`)
	req.Name = "a"
	resp := s.review("/refuse", req)
	if resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable || resp.Result.Reason != metav1.StatusReasonServiceUnavailable {
		t.Errorf("the response is %+v, want a refusal by 503", resp)
	}
	if len(s.asked) != 0 {
		t.Error("the Answerer is asked, want it not to be")
	}
}

// The path keep restores the stored status if an UPDATE changes it, and removes the status from the managed fields.
func TestKeep_RestoresTheStoredStatus(t *testing.T) {
	object := func(status, owned string) string {
		return `{"metadata":{"name":"a","labels":{"x":"new"},"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{}` + owned + `}}]},"spec":{}` + status + `}`
	}
	const own, bound, forged = `,"f:status":{"f:phase":{}}`, `,"status":{"phase":"Bound"}`, `,"status":{"phase":"Pending"}`
	s := answering(t, boundAnswer, nil)
	for name, tt := range map[string]struct{ stored, sent, want string }{
		"unchanged":           {object(bound, ""), object(bound, ""), object(bound, "")},
		"forged":              {object(bound, ""), object(forged, own), object(bound, "")},
		"added":               {object("", ""), object(forged, own), object("", "")},
		"removed":             {object(bound, ""), object("", ""), object(bound, "")},
		"emptied":             {object(bound, ""), object(`,"status":{}`, own), object(bound, "")},
		"an absurd one":       {object(bound, ""), object(`,"status":"Bound"`, own), object(bound, "")},
		"none sent as empty":  {object("", ""), object(`,"status":{}`, ""), object(`,"status":{}`, "")},
		"an empty one stored": {object(`,"status":{}`, ""), object(forged, own), object(`,"status":{}`, "")},
	} {
		t.Run(name, func(t *testing.T) {
			sameJSON(t, patched(t, tt.sent, s.review(s.keepPath(), updating(tt.stored, tt.sent))), tt.want)
		})
	}
	if resp := s.review(s.keepPath(), updating(object(bound, ""), object(bound, ""))); resp.Patch != nil || resp.PatchType != nil {
		t.Errorf("the patch of an unchanged status is %s, want none", resp.Patch)
	}
	if _, err := keep(t.Context(), &admissionv1.AdmissionRequest{}); err == nil {
		t.Error("keep passes a request without objects, want an error")
	}
}
