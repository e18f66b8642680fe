package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// lines are the commands that print server data.
var lines = []string{
	"claim list", "claim list -A", "claim list -o wide", "claim list -o csv --sort-by .metadata.name", "claim list -A -o wide", "claim list -o name",
	"claim show web", "claim show web -o table", "claim show web -o wide", "claim show web -o name",
	"claim create web --class c --wait 500ms", "claim create web --class c -o wide", "claim create web --class c -o name", "claim create web --class c -q",
	"tenant list", "tenant list -o name", "tenant list -o csv", "network list", "network list -o name", "network list -o csv", "check --wait --timeout 1s",
	"pool create lab --cidr 192.0.2.0/24 --replace --wait 500ms",
	"claim release web", "claim release web --retained", "claim move web --to-name db", "claim pin web",
	"pool list", "pool list -o wide", "pool list -o name", "pool show x", "pool show " + hostile + " --workspace " + hostile, "pool show " + hostile + " --workspace " + hostile + " -o wide", "pool tree", "pool tree -o wide",
	"pool next x --length 28", "pool next x --length 28 -o csv", "pool create lab --cidr 192.0.2.0/24", "pool release lab", "pool release lab --yes --wait 500ms", "pool release lab --cascade", "pool release lab --cascade --yes --wait 500ms",
	"grant ipam-class-admin --user x", "grant ipam-class-admin --user x -o json", "class create c --family IPv4", "class create d --family IPv4 --wait 500ms -o wide",
	"class list", "class list -o wide", "class list -o name", "class show c", "class show " + hostile, "class show " + hostile + " -o name",
	"address show 192.0.2.17", "address show 192.0.2.17 -o wide", "address show 192.0.2.200", "address show 10.0.0.1",
	"claim create web --class c --replace --wait 500ms", "why web", "export -A", "export -o csv", "export -o json", "export -o name",
	"import testdata/plan.csv --wait 500ms", "import testdata/plan.csv --dry-run", "import testdata/plan.csv --dry-run -o json", "version", "version -o json", "version -o yaml", "check", "check -o json", "check -o yaml",
	"history 192.0.2.17",
	"__complete claim show ", "__complete claim release ", "__complete pool show ", "__complete class show ", "__complete why ",
	"__complete claim create --class ", "__complete claim create --pool ", "__complete pool create --parent ",
}

// No command prints a control character from a hostile server, nor lets the server begin a line.
func TestHostile_NoCommandPrintsControlCharacters(t *testing.T) {
	for _, given := range []struct {
		bound    bool
		coloured screen.Paint
	}{{false, false}, {true, true}} {
		server := newEvil(t, given.bound)
		for _, line := range lines {
			s := stage.New(t)
			s.Paint, s.ErrPaint = given.coloured, given.coloured
			s.Execute(t.Context(), newRoot(s.Session), append([]string{"--server", server.URL}, split(line)...))
			for name, shown := range map[string]string{"stdout": s.Printed.String(), "stderr": s.Said.String()} {
				if says := obeyed(shown, given.coloured); says != "" {
					t.Errorf("%+v: kubectl ipam %q writes to %s %s: %q", given, line, name, says, shown)
				}
			}
			if s.Printed.Len()+s.Said.Len() == 0 {
				t.Errorf("%+v: kubectl ipam %q says nothing", given, line)
			}
		}
	}
}

// retrying are the commands that run for long: they retry while the server refuses everything, or serve until they are
// stopped.
var retrying = []string{"ui", "init", "tenant bind root:acme", "controller-kubeconfig"}

// Each command is tried with a hostile server: it is in lines or in retrying.
func TestHostile_TriesEveryCommand(t *testing.T) {
	for _, cmd := range own(t) {
		_, path, _ := strings.Cut(cmd.CommandPath(), "kubectl ipam ")
		tried := func(line string) bool { return strings.HasPrefix(line+" ", path+" ") }
		if !cmd.HasSubCommands() && !slices.ContainsFunc(append(retrying, lines...), tried) {
			t.Errorf("kubectl ipam %s is not tried with a hostile server", path)
		}
	}
}

// Errors from the server are printed without their control characters.
func TestHostile_ErrorsHaveNoControlCharacters(t *testing.T) {
	server := newEvil(t, false)
	for _, line := range retrying {
		s := stage.New(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		s.Execute(ctx, newRoot(s.Session), append([]string{"--server", server.URL}, split(line)...))
		cancel()
		if says := obeyed(s.Printed.String()+s.Said.String(), false); says != "" || s.Said.Len() == 0 {
			t.Errorf("kubectl ipam %q writes %s: %q", line, says, s.Said)
		}
	}
}

// obeyed says which hostile text an output obeys; empty: none.
func obeyed(shown string, coloured screen.Paint) string {
	if coloured {
		shown = screen.Colour.ReplaceAllStringFunc(strings.ReplaceAll(shown, "\x1b[31mred", "\x00"), func(string) string { return "" })
	}
	switch {
	case !utf8.ValidString(shown):
		return "invalid UTF-8"
	case strings.IndexFunc(shown, commands) >= 0:
		return "a control character"
	case strings.HasPrefix(shown, forged), strings.Contains(shown, "\n"+forged):
		return "a forged line"
	}
	return ""
}

// commands reports whether a rune is unprintable. A line end is not.
func commands(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }

// split splits a command line into words, but keeps the hostile text as one word.
func split(line string) []string {
	words := strings.Split(strings.ReplaceAll(line, hostile, "\xff"), " ")
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "\xff", hostile)
	}
	return words
}

// JSON and YAML decode to exactly the server's object, and have no raw control character.
func TestHostile_DataIsFaithful(t *testing.T) {
	server := newEvil(t, true)
	for format, read := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(text []byte, into any) error { return yaml.Unmarshal(text, into) },
		"jsonpath-as-json={@}": func(text []byte, into any) error {
			var found []json.RawMessage
			if err := json.Unmarshal(text, &found); err != nil || len(found) != 1 {
				return err
			}
			return json.Unmarshal(found[0], into)
		},
	} {
		for command, plural := range map[string]string{
			"claim show web": "ipclaims", "class show " + hostile: "ipclasses", "pool show " + hostile + " --workspace " + hostile: "ippools",
		} {
			s := stage.New(t)
			code := s.Execute(t.Context(), newRoot(s.Session), append([]string{"--server", server.URL}, split(command+" -o "+format)...))
			if shown := s.Printed.String(); code != exit.OK || strings.IndexFunc(shown, commands) >= 0 || !utf8.ValidString(shown) {
				t.Errorf("kubectl ipam %q -o %s ends with %d and writes %q", command, format, code, shown)
			}
			want := server.one(plural)
			got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(client.Object)
			if err := read(s.Printed.Bytes(), got); err != nil {
				t.Errorf("kubectl ipam %q -o %s is not to be read: %v", command, format, err)
			}
			got.GetObjectKind().SetGroupVersionKind(want.GetObjectKind().GroupVersionKind())
			if !reflect.DeepEqual(want, got) {
				t.Errorf("kubectl ipam %q -o %s says\n%v\nthe server has said\n%v", command, format, got, want)
			}
		}
	}
}

// On a terminal, the output of a template is escaped, except for line ends and tabs. If a program reads the output, it
// gets the values as they are.
func TestHostile_EscapesTemplatesOnATerminal(t *testing.T) {
	server := newEvil(t, true)
	for _, format := range []string{"jsonpath={.metadata.name}", "go-template={{.metadata.name}}"} {
		for _, terminal := range []bool{false, true} {
			s := stage.New(t)
			s.Out = screen.Writer{Writer: s.Printed, Paint: &s.Paint, Terminal: terminal}
			s.Paint = true
			s.Execute(t.Context(), newRoot(s.Session), []string{"--server", server.URL, "claim", "show", "web", "-o", format})
			want := hostile
			if terminal {
				want = legible.Escape(hostile, "\n\t")
			}
			if got := s.Printed.String(); got != want {
				t.Errorf("-o %s writes %q (to a terminal: %v), want %q", format, got, terminal, want)
			}
		}
	}
}

// If a tenant publishes a server of its own as the endpoint of the export, that server gets no request.
func TestReach_AsksNoServerOfATenant(t *testing.T) {
	asked := 0
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer thief.Close()
	server := newEvil(t, true)
	server.endpoint = thief.URL + "/services/apiexport/a/ipam.miloapis.com"
	for _, line := range []string{"pool show x", "pool tree", "address show 192.0.2.17"} {
		s := stage.New(t)
		code := s.Execute(t.Context(), newRoot(s.Session), append([]string{"--server", server.URL, "--token", "secret"}, strings.Fields(line)...))
		if asked > 0 {
			t.Fatalf("kubectl ipam %s sends the token to the server of a tenant", line)
		}
		if code != exit.Forbidden || !strings.Contains(s.Said.String(), "your credential was not sent there") || !strings.Contains(s.Said.String(), "certificate-authority") {
			t.Errorf("kubectl ipam %s ends with %d and says %q; want %d, and that nothing was sent", line, code, s.Said, exit.Forbidden)
		}
	}
}

// The answers of a hostile controller are printed without control characters.
func TestHostile_HistoryHasNoControlCharacters(t *testing.T) {
	server := newEvil(t, true)
	access := server.secure()
	for line, want := range map[string]string{
		"history 192.0.2.17": "192.0.2.16/28", "history 192.0.2.17 -o csv": "192.0.2.16/28", "history 192.0.2.17 -o name": "192.0.2.16/28",
		"history 192.0.2.17 -o json": `"prefix": "192.0.2.16/28"`, "history --claim refused/all": "the controller says",
	} {
		s := stage.New(t)
		s.Execute(t.Context(), newRoot(s.Session), append(access, strings.Fields(line)...))
		shown := s.Printed.String() + s.Said.String()
		if says := obeyed(shown, false); says != "" || !strings.Contains(shown, want) {
			t.Errorf("kubectl ipam %s writes %q, want %q in it and nothing to obey, such as %s", line, shown, want, says)
		}
	}
}

// If a tenant publishes a server of its own as the controller of the platform, that server gets no request. Nor does a
// server to which the controller redirects.
func TestHistory_SendsNoTokenToAThief(t *testing.T) {
	server := newEvil(t, true)
	access, asked := server.secure(), 0
	server.controller.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, server.URL+"/thief", http.StatusTemporaryRedirect)
	})
	there := server.controller.URL
	server.controller.URL = strings.Replace(there, "127.0.0.1", "example.com", 1) // its certificate is valid for that, too
	for _, tt := range []struct {
		args  []string
		asked int
		code  int
		says  string
	}{
		{nil, 0, exit.Forbidden, "your credential was not sent there"},
		{[]string{"--controller", strings.Replace(there, "https", "http", 1)}, 0, exit.Usage, "would send your token in the clear"},
		{[]string{"--as", "bob", "--controller", there}, 0, exit.Usage, "--as is known to the API server alone"},
		{[]string{"--controller", there}, 1, exit.Unavailable, "307"},
	} {
		s := stage.New(t)
		code := s.Execute(t.Context(), newRoot(s.Session), append(append(access, "history", "192.0.2.17"), tt.args...))
		if asked != tt.asked || code != tt.code || !strings.Contains(s.Said.String(), tt.says) {
			t.Errorf("history %q asks it %d times, ends with %d and says %q; want %d, %d and %q", tt.args, asked, code, s.Said, tt.asked, tt.code, tt.says)
		}
	}
}
