package history

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// judge returns an API server that knows two tokens: that of alice, who may ask for the history, and that of bob, who
// may not. down is the kind of review that it does not serve; nil: it serves all.
func judge(down client.Object) client.Client {
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			switch review := object.(type) {
			case *authenticationv1.TokenReview:
				if _, ok := down.(*authenticationv1.TokenReview); ok {
					return errors.New("down")
				}
				name, known := map[string]string{"alices": "alice", "bobs": "bob"}[review.Spec.Token]
				review.Status.Authenticated = known
				review.Status.User = authenticationv1.UserInfo{Username: name, UID: "7", Groups: []string{"staff"}, Extra: map[string]authenticationv1.ExtraValue{"from": {"here"}}}
			case *authorizationv1.SubjectAccessReview:
				if _, ok := down.(*authorizationv1.SubjectAccessReview); ok {
					return errors.New("down")
				}
				asks := review.Spec
				review.Status.Allowed = asks.User == "alice" && asks.UID == "7" && asks.Groups[0] == "staff" && asks.Extra["from"][0] == "here" &&
					asks.NonResourceAttributes.Path == "/history" && asks.NonResourceAttributes.Verb == "get"
			}
			return nil
		},
	})
}

// Users without the right learn why they get no answer, and nothing of the history.
func TestServed_AnswersOnlyUsersWithTheRight(t *testing.T) {
	s := newScene(t)
	s.hold("a")
	for name, tt := range map[string]struct {
		down                 client.Object
		authorization, query string
		status               int
		want                 string
	}{
		"a user with the right":         {nil, "Bearer alices", "prefix=10.0.0.7", 200, `"uid":"uid-a"`},
		"a user without":                {nil, "Bearer bobs", "prefix=10.0.0.7", 403, `user "bob" has no right to get /history; the role ipam-history-viewer gives it`},
		"an unknown token":              {nil, "Bearer forged", "prefix=10.0.0.7", 401, "does not know the token"},
		"no token":                      {nil, "", "prefix=10.0.0.7", 401, "send the token"},
		"an empty token":                {nil, "Bearer ", "prefix=10.0.0.7", 401, "send the token"},
		"another way to log in":         {nil, "Basic YWxpY2VzOg==", "prefix=10.0.0.7", 401, "send the token"},
		"a bad query":                   {nil, "Bearer alices", "prefix=10.0.0.7&at=noon", 400, "write one such as"},
		"no query":                      {nil, "Bearer alices", "", 400, "name an address"},
		"a bad query of a user without": {nil, "Bearer bobs", "x=y", 403, "no right"},
		"nobody checks tokens":          {&authenticationv1.TokenReview{}, "Bearer alices", "prefix=10.0.0.7", 503, "cannot check the token now"},
		"nobody checks rights":          {&authorizationv1.SubjectAccessReview{}, "Bearer alices", "prefix=10.0.0.7", 503, "cannot check your rights now"},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/history?"+tt.query, nil)
			request.Header.Set("Authorization", tt.authorization)
			answer := httptest.NewRecorder()
			Served(judge(tt.down), s.reader, names{}).ServeHTTP(answer, request)
			if answer.Code != tt.status || !strings.Contains(answer.Body.String(), tt.want) {
				t.Errorf("%d %s; want %d with %q", answer.Code, answer.Body, tt.status, tt.want)
			}
			if tt.status != http.StatusOK && strings.Contains(answer.Body.String(), "uid-a") {
				t.Errorf("it tells a holder: %s", answer.Body)
			}
		})
	}
}

// slow is a ledger that answers when the test lets it.
type slow struct {
	Ledger
	asked  chan struct{}
	answer chan struct{}
}

func (l slow) Tenures(context.Context, netip.Prefix, func(ledger.Tenure, error) bool) (int64, error) {
	l.asked <- struct{}{}
	<-l.answer
	return 1, nil
}

// A few requests are served at once, further ones are refused, and later ones are served again.
func TestServed_RefusesTooManyAtOnce(t *testing.T) {
	books := slow{asked: make(chan struct{}), answer: make(chan struct{})}
	served := Served(judge(nil), books, names{})
	ask := func() int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/history?prefix=10.0.0.7", nil)
		request.Header.Set("Authorization", "Bearer alices")
		answer := httptest.NewRecorder()
		served.ServeHTTP(answer, request)
		return answer.Code
	}
	codes := make(chan int, atOnce)
	for range atOnce {
		go func() { codes <- ask() }()
		<-books.asked
	}
	if code := ask(); code != http.StatusTooManyRequests {
		t.Errorf("one more is answered with %d, want %d", code, http.StatusTooManyRequests)
	}
	close(books.answer)
	for range atOnce {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("one of the first is answered with %d, want %d", code, http.StatusOK)
		}
	}
	go func() { <-books.asked }()
	if code := ask(); code != http.StatusOK {
		t.Errorf("a later one is answered with %d, want %d", code, http.StatusOK)
	}
}
