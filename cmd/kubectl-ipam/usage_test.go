package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/build"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A wrong command line does nothing. The error says what to write instead.
func TestUsage_SaysWhatToWriteInstead(t *testing.T) {
	for line, want := range map[string]string{
		"clam":                      `did you mean "claim"?`,
		"claim crate":               `did you mean "create"?`,
		"pool edit lab":             "use kubectl edit ippool NAME",
		"class create a":            `"family"`,
		"class create a --family 4": "write IPv4 or IPv6",
		"class create a --family IPv4 --min-length 24":      "[min-length max-length]",
		"claim list -o custom-columns=A:.a":                 "kubectl get prints custom-columns",
		"claim list all":                                    "unknown command",
		"claim create a b":                                  "accepts at most 1 arg",
		"claim create --length x":                           "no prefix length: write 1 to 32 for IPv4, 1 to 128 for IPv6",
		"claim create --class a --pool b":                   "[class pool]",
		"claim create --workspace root:a":                   "give --pool with it",
		"claim create --family 4":                           "write IPv4 or IPv6",
		"claim create --reclaim-policy keep":                "write Delete or Retain",
		"claim create --unmet-policy never":                 "write Wait or Refuse",
		"claim create --pool p --wait=-1s":                  "write a duration such as 30s",
		"claim create --dry-run=perhaps":                    "write client or server",
		"claim list -o xml":                                 "write one of table, wide",
		"claim list -l a=(":                                 "write labels such as site=fra",
		"claim list -o jsonpath={":                          "--output",
		"claim show":                                        "accepts 1 arg",
		"claim release":                                     "requires at least 1 arg",
		"pool create a":                                     "[cidr parent class]",
		"pool create a --class b,c":                         "--class names the class to get the block by",
		"pool create a --class b --workspace root:a":        "give --parent with it",
		"pool create a --cidr c --address 10.0.0.0/24":      "[address cidr]",
		"pool create a --class b --length 1 --address c":    "[address length]",
		"pool create a --parent b":                          "--parent and --length go together",
		"pool create a --cidr c --visibility":               "needs an argument",
		"pool create a --cidr c --visibility world":         "write consumer or shared or platform",
		"pool create a --cidr c --strategy Best":            "write FirstFit or BestFit",
		"pool release a --wait 0":                           "write a duration such as 30s",
		"check --wait --timeout 0":                          "write a duration such as 30s or 5m",
		"address show 10.0.0.300":                           "write one such as 192.0.2.7",
		"init ipam":                                         "write a path below root",
		"tenant bind root":                                  "write a path below root",
		"why":                                               "accepts 1 arg",
		"why --nonsense a":                                  "unknown flag",
		"pool next lab -o xml":                              "write one of table, wide, csv",
		"ui --port 70000":                                   "write a number up to 65535",
		"pool next lab --count 0":                           "write a number from 1 to 1000",
		"claim create ''":                                   "the name is empty",
		"pool create a --parent '' --workspace root:a":      "--parent is empty",
		"pool create a --cidr c --unit-length 28":           "give --leading or --trailing with it",
		"pool create a --cidr ''":                           "--cidr is empty",
		"pool create a --cidr c --replace --dry-run=server": "give no --dry-run=server",
		"claim create a --class=":                           "--class is empty",
		"claim create a --reclaim-policy ''":                "write Delete or Retain",
		"claim create a --owner ''":                         "write KIND/NAMESPACE/NAME",
		"claim create a --labels ''":                        "write site=fra",
		"claim release a -n ''":                             "--namespace is empty",
		"claim list --context ''":                           "--context is empty",
		"claim list -l ''":                                  "--selector is empty",
		"claim list -o ''":                                  "--output is empty",
		"pool create a --cidr c --class ''":                 "--class is empty",
		"pool create a --cidr c --consumer a,":              "--consumer is empty",
		"tenant bind root:a --platform ''":                  "--platform is empty",
		"tenant list a":                                     "unknown command",
		"network show a":                                    "use kubectl ipam network list --scope",
		"network create a":                                  "--target range",
		"history":                                           "name an address or a prefix",
		"history 10.0.0.300":                                "neither an address nor a prefix",
		"history 10.0.0.1 --at noon":                        "write one such as 2026-03-01T14:05:00Z",
		"address history":                                   "use kubectl ipam history",
		"get claims":                                        "use kubectl ipam claim get",
		"pool create a --cidr c --max-slices 4":             "give --slice-length with it",
		"pool create a --cidr c --leading -1":               "no number: write one such as 1",
		"pool create a --cidr c --scope network":            "write each role once",
		"claim create a --owner-uid u":                      "--owner is",
		"class rm a":                                        "use kubectl delete ipclass NAME",
		"version --client -o name":                          "write json or yaml",
	} {
		s := stage.New(t)
		args := strings.Fields(line)
		for i, arg := range args {
			args[i] = strings.Trim(arg, "'")
		}
		code := s.Execute(t.Context(), newRoot(s.Session), args)
		if code != exit.Usage || !strings.Contains(s.Said.String(), want) || s.Printed.Len() > 0 {
			t.Errorf("kubectl ipam %s ended with %d and said %q; want %d and %q", line, code, s.Said, exit.Usage, want)
		}
	}
}

// Commands that need no server work without one.
func TestCommands_WorkWithoutAServer(t *testing.T) {
	for line, name := range map[string]string{
		"": "help", "claim create --help": "help_claim_create",
		"claim create web --class internal --length 28 --dry-run":                        "dry_run",
		"pool create lab --cidr 10.8.0.0/16 --class a,b --dry-run=client":                "dry_run_pool",
		"pool create spread --cidr 10.8.0.0/16 --strategy leastutilized --dry-run":       "dry_run_strategy",
		"pool create east --parent lab --length 20 --workspace root:n --dry-run -o json": "dry_run_child",
	} {
		s := stage.New(t)
		if code := s.Execute(t.Context(), newRoot(s.Session), strings.Fields(line)); code != exit.OK {
			t.Fatalf("kubectl ipam %s ended with %d: %s", line, code, s.Said)
		}
		stage.Golden(t, name, s.Printed.String())
	}
	s := stage.New(t)
	if code := s.Execute(t.Context(), newRoot(s.Session), []string{"init", "--dry-run"}); code != exit.OK ||
		!strings.Contains(s.Printed.String(), "kind: APIExport") || !strings.Contains(s.Printed.String(), "kind: CustomResourceDefinition") {
		t.Errorf("init --dry-run ended with %d and %s", code, s.Said)
	}
	for _, line := range []string{"version --client", "claim create web --pool lab --workspace= --dry-run"} { // their help says what it means
		if code := s.Execute(t.Context(), newRoot(s.Session), strings.Fields(line)); code != exit.OK {
			t.Errorf("kubectl ipam %s ended with %d and said %q; want %d", line, code, s.Said, exit.OK)
		}
	}
}

// A command in a hint reaches the server that the user has given, as the same user.
func TestHints_KeepTheConnection(t *testing.T) {
	server := newEvil(t, false)
	s := stage.New(t)
	s.Execute(t.Context(), newRoot(s.Session), []string{"--server", server.URL, "--as", "bob", "claim", "create", "web", "--class", "c"})
	if want := "kubectl ipam --as bob --server " + server.URL + " claim release "; !strings.Contains(s.Said.String(), want) {
		t.Errorf("claim create says %q; want %q", s.Said, want)
	}
}

// For each noun, each verb that users know from kubectl is a command, or the error names the command to use.
func TestUsage_AnswersTheVerbsOfKubectl(t *testing.T) {
	for _, noun := range []string{"claim", "claims", "pool", "class", "address", "tenant"} {
		for _, verb := range []string{"get", "describe", "show", "list", "ls", "delete", "rm", "release", "edit", "history"} {
			s := stage.New(t)
			code := s.Execute(t.Context(), newRoot(s.Session), []string{noun, verb, "--nonsense"})
			if said := s.Said.String(); code != exit.Usage || !strings.Contains(said, "unknown flag") && !strings.Contains(said, "; use ") {
				t.Errorf("kubectl ipam %s %s ended with %d and said %q; want a command, or one to use", noun, verb, code, said)
			}
		}
	}
}

// The version is also printed for programs.
func TestVersion_IsPrintedAsData(t *testing.T) {
	for _, format := range []string{output.JSON, output.YAML} {
		s := stage.New(t)
		if code := s.Execute(t.Context(), newRoot(s.Session), []string{"version", "--client", "-o", format}); code != exit.OK {
			t.Fatalf("version -o %s ended with %d: %s", format, code, s.Said)
		}
		if !strings.Contains(s.Printed.String(), ipamv1alpha1.GroupVersion.String()) {
			t.Errorf("version -o %s prints %q; want the version of the API", format, s.Printed)
		}
		if format == output.JSON && !json.Valid(s.Printed.Bytes()) {
			t.Errorf("version -o json prints %q", s.Printed)
		}
	}
}

// Like that of most programs, the flag --version asks no server.
func TestVersion_FlagAsksNoServer(t *testing.T) {
	s := stage.New(t)
	code := s.Execute(t.Context(), newRoot(s.Session), []string{"--version"})
	if got, want := s.Printed.String(), "kubectl ipam "+build.Version()+"\n"; code != exit.OK || got != want {
		t.Errorf("kubectl ipam --version ended with %d and printed %q; want %q", code, got, want)
	}
}

// fullDisk is a writer like /dev/full.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// If the output cannot be written, this is an error.
func TestWrite_FailsOnAFullDisk(t *testing.T) {
	for _, line := range []string{"--help", "version --client", "version --client -o json", "init --dry-run", "claim create a --dry-run", "claim create a --dry-run -o name"} {
		s := stage.New(t)
		streams, _, _, errs := genericiooptions.NewTestIOStreams()
		streams.Out = fullDisk{}
		s.Session = session.New(streams)
		if code := s.Execute(t.Context(), newRoot(s.Session), strings.Fields(line)); code != exit.Error || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("kubectl ipam %s on a full disk ended with %d and said %q; want %d and what is wrong", line, code, errs, exit.Error)
		}
	}
}
