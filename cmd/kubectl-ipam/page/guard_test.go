package page_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
)

// Only browsers that know the token, and ask for the server by its own address, get an answer.
func TestGuard_AdmitsOnlyBrowsersWithTheToken(t *testing.T) {
	t.Parallel()
	handler := pages(town(""))
	for name, test := range map[string]struct {
		method, host, origin, path, cookie string
		status                             int
	}{
		"its page":                 {cookie: token, status: 200},
		"its script":               {cookie: token, origin: "http://" + host, path: "/static/page.js", status: 200},
		"its style":                {cookie: token, path: "/static/style.css", status: 200},
		"no cookie":                {status: 401},
		"no cookie for the script": {path: "/static/page.js", status: 401},
		"another cookie":           {cookie: "secre", status: 401},
		"another token":            {path: "/?token=secre", status: 401},
		"an empty token":           {path: "/?token=", cookie: token, status: 401},
		"the token":                {path: "/?token=" + token, status: 303},
		"a rebound name":           {host: "evil.example:8080", cookie: token, status: 403},
		"a rebound name, token":    {host: "evil.example:8080", path: "/?token=" + token, status: 403},
		"another port":             {host: "127.0.0.1:8081", cookie: token, status: 403},
		"localhost":                {host: "localhost:8080", cookie: token, status: 403},
		"another origin":           {origin: "http://evil.example", cookie: token, status: 403},
		"a null origin":            {origin: "null", cookie: token, status: 403},
		"a secure origin":          {origin: "https://" + host, cookie: token, status: 403},
		"a POST":                   {method: http.MethodPost, cookie: token, status: 405},
		"a DELETE":                 {method: http.MethodDelete, cookie: token, path: "/pool/office", status: 405},
		"an OPTIONS":               {method: http.MethodOptions, cookie: token, status: 405},
		"the folder of the files":  {cookie: token, path: "/static/../page.go", status: 307},
		"a file that is no page's": {cookie: token, path: "/static/page.go", status: 404},
	} {
		r := httptest.NewRequestWithContext(t.Context(), orElse(test.method, http.MethodGet), "http://"+host+orElse(test.path, "/"), nil)
		r.Host = orElse(test.host, host)
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		if test.cookie != "" {
			r.AddCookie(&http.Cookie{Name: "kubectl-ipam-8080", Value: test.cookie})
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%s: the answer is %d, want %d: %s", name, w.Code, test.status, w.Body)
		}
		if test.status >= 400 && test.status != 404 && strings.Contains(w.Body.String(), "office") {
			t.Errorf("%s: a refusal shows a pool: %s", name, w.Body)
		}
		if got := w.Header().Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'none'") || !strings.Contains(got, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy is %q", name, got)
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: other origins are let in: %q", name, got)
		}
	}
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// The token is replaced by a cookie that scripts and other sites do not get. It leaves the address.
func TestGuard_ReplacesTheTokenByACookie(t *testing.T) {
	t.Parallel()
	handler := pages(town(""))
	for path, want := range map[string]string{
		"/?token=secret":                            "/",
		"/pool/office/192.0.2.0/25?token=secret":    "/pool/office/192.0.2.0/25",
		"/search?q=10.0.0.1&token=secret":           "/search?q=10.0.0.1",
		"//evil.example/?token=secret":              "/evil.example/",
		"/%5cevil.example/?token=secret":            "/evil.example/",
		"/pool/office?block=192.0.2.0&token=secret": "/pool/office?block=192.0.2.0",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+path, nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != want || len(cookies) != 1 {
			t.Fatalf("GET %s ends with %d and leads to %q with %d cookies; want %q", path, w.Code, w.Header().Get("Location"), len(cookies), want)
		}
		if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Domain != "" || c.Value != token {
			t.Errorf("GET %s sets the cookie %q", path, c)
		}
	}
}

func TestNewToken_IsDifferentEachTime(t *testing.T) {
	t.Parallel()
	if a, b := page.NewToken(), page.NewToken(); a == b || len(a) < 43 {
		t.Errorf("the tokens are %q and %q; want different ones of 256 bits", a, b)
	}
}

// Browsers send the cookies of 127.0.0.1 to all of its ports, but only for paths below that of the cookie. Nobody else
// can guess this path, and all pages and links are below it.
func TestGuard_KeepsTheCookieBelowTheRoot(t *testing.T) {
	t.Parallel()
	const root = "/x7Q"
	handler := page.New(page.Options{Source: town(""), Host: host, Token: token, Root: root[1:], Now: func() time.Time { return noon }})
	for _, path := range []string{"/", "/x7Q", "/x7", "/x7Qq/", "/pool/office", "/?token=" + token, "//x7Q/", "/static/page.js"} {
		if w := get(t, handler, path); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 || strings.Contains(w.Body.String(), "x7Q") {
			t.Errorf("GET %s, which is not below the root, ends with %d: %s", path, w.Code, w.Body)
		}
	}
	for path, want := range map[string]string{"/x7Q/?token=secret": "/x7Q/", "/x7Q//evil.example?token=secret": "/x7Q/evil.example"} {
		w := get(t, handler, path)
		if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].Path != root+"/" || w.Header().Get("Location") != want {
			t.Errorf("GET %s leads to %q with the cookies %v; want %q and one for %s/", path, w.Header().Get("Location"), cookies, want, root)
		}
	}
	links := regexp.MustCompile(`="(/[^"]*)"`)
	for _, path := range []string{"/", "/pool/office?block=192.0.2.16/28", "/pool/office/list", "/plan?class=internal&length=28", "/search?q=web", "/tenants", "/nowhere"} {
		shown := get(t, handler, root+path).Body.String()
		found := links.FindAllStringSubmatch(shown, -1)
		for _, link := range found {
			if !strings.HasPrefix(link[1], root+"/") {
				t.Errorf("%s leads to %s, which is not below %s", path, link[1], root)
			}
		}
		if len(found) < 5 {
			t.Errorf("%s has %d links: %s", path, len(found), shown)
		}
	}
	if w := get(t, handler, root+"/static/style.css"); w.Code != http.StatusOK {
		t.Errorf("the style ends with %d", w.Code)
	}
}

// Browsers omit the usual port of the scheme in Host and Origin.
func TestGuard_AcceptsAHostWithoutPort80(t *testing.T) {
	t.Parallel()
	handler := page.New(page.Options{Source: town(""), Host: "127.0.0.1:80", Token: token, Now: func() time.Time { return noon }})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	r.Header.Set("Origin", "http://127.0.0.1")
	r.AddCookie(&http.Cookie{Name: "kubectl-ipam-", Value: token})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("on port 80 a browser gets %d: %s", w.Code, w.Body)
	}
}
