// Package page serves as web pages what the commands of kubectl ipam show: pools as maps, their blocks, the claims that
// wait, and where a claim would go. It is read-only, and has the rights of its caller.
//
// The server writes HTML and SVG. Every view has an address, and works without JavaScript. A small script shows what is
// under the pointer, and refreshes the figures.
package page

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/internal/lookup"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// Options configure the pages.
type Options struct {
	Source Source
	// Host is the address by which a browser reaches the pages, such as 127.0.0.1:8080.
	Host string
	// Token admits a browser, see [NewToken].
	Token string
	// Root is the beginning of all paths; it may be empty. A browser sends the cookie only below it, but to all ports of
	// the machine. So nobody should be able to guess it, see [NewToken].
	Root string
	// Now is the clock by which ages are shown.
	Now func() time.Time
}

//go:embed templates static
var files embed.FS

// server answers requests.
type server struct {
	Options
	reading   *reading
	templates map[string]*template.Template
	// links puts the root before the links of a page. It changes no texts of users, because the quotes in these are
	// escaped.
	links *strings.Replacer
}

// New returns the handler of all pages. The handler is safe for concurrent use.
func New(options Options) http.Handler {
	root := ""
	if options.Root != "" {
		root = "/" + options.Root
	}
	s := &server{Options: options, reading: newReading(options.Source, options.Now)}
	s.links = strings.NewReplacer(
		` href="/`, ` href="`+root+"/", ` src="/`, ` src="`+root+"/", ` action="/`, ` action="`+root+"/")
	s.templates = s.parse()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.view(s.overview))
	mux.HandleFunc("GET /pool/{name}", s.view(s.pool))
	mux.HandleFunc("GET /pool/{name}/{window...}", s.view(s.pool))
	mux.HandleFunc("GET /pool/{name}/list", s.view(s.list))
	mux.HandleFunc("GET /pool/{name}/list.csv", s.csv)
	mux.HandleFunc("GET /claims", s.view(s.claims))
	mux.HandleFunc("GET /claim/{namespace}/{name}", s.view(s.claim))
	mux.HandleFunc("GET /networks", s.view(s.networks))
	mux.HandleFunc("GET /plan", s.view(s.plan))
	mux.HandleFunc("GET /search", s.view(s.search))
	mux.HandleFunc("GET /tenants", s.view(s.tenants))
	mux.Handle("GET /static/", http.FileServerFS(files))
	mux.HandleFunc("GET /", s.view(func(*http.Request, *Snapshot) (view, error) {
		return view{}, &problem{http.StatusNotFound, "There is no such page."}
	}))
	return guard{host: strings.TrimSuffix(options.Host, ":80"), token: options.Token, root: root, next: mux}
}

// view is a page.
type view struct {
	// Template is the name of its template file, Title is its heading, and Data is what the template shows.
	Template, Title string
	Data            any
	// Still is set for a page that does not refresh itself.
	Still bool
	// Snapshot, Path and Query are set for every page.
	Snapshot *Snapshot
	Path     string
	Query    string
}

// problem is an error with its HTTP status.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

// view returns a handler for the page that show makes from a snapshot.
func (s *server) view(show func(*http.Request, *Snapshot) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var page view
		snapshot, err := s.reading.get(r.Context())
		if err == nil {
			page, err = show(r, snapshot)
		}
		if err != nil {
			s.fail(w, r, snapshot, err)
			return
		}
		page.Snapshot = snapshot
		s.write(w, r, http.StatusOK, page)
	}
}

// fail sends a page with an error. snapshot is nil if it could not be read.
func (s *server) fail(w http.ResponseWriter, r *http.Request, snapshot *Snapshot, err error) {
	status := http.StatusBadGateway
	if known, ok := err.(*problem); ok { //nolint:errorlint // a problem is never wrapped
		status = known.status
	}
	s.write(w, r, status, view{
		Template: "problem.html", Title: "This did not work", Data: err.Error(), Snapshot: cmp.Or(snapshot, &Snapshot{}),
	})
}

// write renders the whole page before it sends the first byte.
func (s *server) write(w http.ResponseWriter, r *http.Request, status int, page view) {
	page.Path, page.Query = r.URL.Path, r.URL.Query().Get("q")
	var out bytes.Buffer
	if err := s.templates[page.Template].ExecuteTemplate(&out, "layout.html", page); err != nil {
		http.Error(w, "the page cannot be shown: "+legible.Text(err.Error()), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = s.links.WriteString(w, out.String()) // an error means that the client has gone
}

// parse parses the templates, each page together with the layout.
func (s *server) parse() map[string]*template.Template {
	parsed := map[string]*template.Template{}
	for _, name := range []string{
		"overview.html", "claims.html", "claim.html", "networks.html", "pool.html", "list.html", "plan.html", "search.html",
		"tenants.html", "problem.html",
	} {
		page := template.New("").Funcs(template.FuncMap{
			"age":    func(since metav1.Time) string { return facts.Age(since, s.Now()) },
			"text":   legible.Text,
			"moment": lookup.Moment,
			"about":  about,
			"count":  draw.Count,
			"addresses": func(digits string) string {
				n, ok := new(big.Int).SetString(digits, 10)
				if !ok {
					return ""
				}
				return draw.Count(n)
			},
			"counted":   plural.Of[string],
			"isDefault": func(c ipamv1alpha1.IPClass) bool { return facts.IsDefault(&c) },
			"lengths":   ipamv1alpha1.LengthsColumn,
			"svg":       func(f draw.Figure) (template.HTML, error) { return f.SVG() },
		})
		parsed[name] = template.Must(page.ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/"+name))
	}
	return parsed
}

// about returns the description of an object, cut to a few lines; empty if it has none.
func about(object metav1.Object) string {
	const longest = 300
	text := object.GetAnnotations()[ipamv1alpha1.AnnotationDescription]
	if letters := []rune(text); len(letters) > longest {
		return string(letters[:longest-1]) + "…"
	}
	return text
}

// perPage is how many rows a page shows.
const perPage = 500

// paged is a page of many rows.
type paged[T any] struct {
	Rows []T
	// First and Last are the numbers of the first and the last row that are shown, of Total rows.
	First, Last, Total int
	// Before and After are links to the rows before and after; empty if there are none.
	Before, After string
}

// paging returns the rows that a request asks for.
func paging[T any](r *http.Request, all []T) paged[T] {
	number, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || number < 1 || number > 1+(len(all)-1)/perPage {
		number = 1
	}
	first, last := (number-1)*perPage, min(number*perPage, len(all))
	shown := paged[T]{Rows: all[first:last], First: first + 1, Last: last, Total: len(all)}
	link := func(number int) string {
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(number))
		return r.URL.EscapedPath() + "?" + query.Encode()
	}
	if number > 1 {
		shown.Before = link(number - 1)
	}
	if last < len(all) {
		shown.After = link(number + 1)
	}
	return shown
}
