package page

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
)

// NewToken returns a secret that admits a browser to the pages: 256 random bits.
func NewToken() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // this never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// policy is the Content-Security-Policy of the pages. It lets them use only what this server sends.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard admits only browsers that know the token, and only to read.
//
// A page of another site can make a browser send a request to this server. It can use a name of its own that leads to
// 127.0.0.1: guard refuses the Host. It can use a link: SameSite holds the cookie back. It can use a script: guard
// refuses the Origin. Another user of the machine can know the port, but neither the token nor the root. If that user
// runs a server on another port, it gets requests of this browser, but without the cookie.
type guard struct {
	// host is the Host that a browser must send, such as 127.0.0.1:8080. Browsers omit port 80.
	host  string
	token string
	// root is the beginning of all paths, such as /x7Q; it may be empty.
	root string
	next http.Handler
}

// cookie returns the name of the cookie. It has the port, because browsers send a cookie to all ports.
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

// stop refuses a browser that is not admitted.
func (g guard) stop(w http.ResponseWriter) {
	http.Error(w, "open the address that kubectl ipam ui has printed: it has the token", http.StatusUnauthorized)
}

// below reports whether a path is below the root.
func (g guard) below(path string) bool {
	first, _, found := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return g.root == "" || found && same("/"+first, g.root)
}

// admit replaces the token in the address by a cookie, so that the token stays in no history.
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
	// The path must begin with a single slash, because //host would lead to another server.
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
