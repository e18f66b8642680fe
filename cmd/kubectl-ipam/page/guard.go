package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// NewToken is a secret that admits a browser to the page: 256 random bits.
func NewToken() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// policy lets a page use what this server sends, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard admits the browsers that know the token, to read.
//
// A page of another site can have a browser ask this server: by a name of its own that leads to
// 127.0.0.1 (the Host is refused), or by a link (SameSite keeps the cookie back) or a script (the
// Origin is refused). Another user of the machine knows the port, and neither the token nor the root:
// a server of that user, on another port, gets requests of this browser, but no cookie with them.
type guard struct {
	// host is what a browser has to ask for, such as 127.0.0.1:8080. Browsers leave out port 80.
	host  string
	token string
	// root is what all paths begin with, such as /x7Q; empty for none.
	root string
	next http.Handler
}

// cookie is named after the port: cookies do not tell ports apart.
func (g guard) cookie() string { return "kubectl-ipam-" + (&url.URL{Host: g.host}).Port() }

// ServeHTTP implements http.Handler.
func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	origin := r.Header.Get("Origin")
	switch {
	case r.Host != g.host:
		http.Error(w, "this server is http://"+g.host, http.StatusForbidden)
	case origin != "" && origin != "http://"+g.host:
		http.Error(w, "this server answers its own page alone", http.StatusForbidden)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "this page is for reading", http.StatusMethodNotAllowed)
	case !g.below(r.URL.Path):
		g.stop(w)
	case r.URL.Query().Has("token"):
		g.admit(w, r)
	case !g.knows(r):
		g.stop(w)
	default:
		http.StripPrefix(g.root, g.next).ServeHTTP(w, r)
	}
}

// stop refuses a browser that was not admitted.
func (g guard) stop(w http.ResponseWriter) {
	http.Error(w, "open the address that kubectl ipam ui has printed: it has the token", http.StatusUnauthorized)
}

// below reports whether a path is below the root.
func (g guard) below(path string) bool {
	first, _, found := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return g.root == "" || found && same("/"+first, g.root)
}

// admit exchanges the token in the address for a cookie, so that it is in no history.
func (g guard) admit(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if !same(query.Get("token"), g.token) {
		http.Error(w, "this token is not that of this server; open the address that it has printed", http.StatusUnauthorized)
		return
	}
	query.Del("token")
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie(), Value: g.token, Path: g.root + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	// The path begins with one slash: //host would lead to another server.
	at := strings.TrimLeft(strings.TrimPrefix(r.URL.Path, g.root), `/\`)
	to := url.URL{Path: g.root + "/" + at, RawQuery: query.Encode()}
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// knows reports whether a request has the cookie.
func (g guard) knows(r *http.Request) bool {
	cookie, err := r.Cookie(g.cookie())
	return err == nil && same(cookie.Value, g.token)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
