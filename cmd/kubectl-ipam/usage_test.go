package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A wrong command line does nothing, and the error says what to write.
func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"clam":                      `did you mean "claim"?`,
		"claim crate":               `did you mean "create"?`,
		"pool edit lab":             "use kubectl edit ippool NAME",
		"class create a":            `"family"`,
		"class create a --family 4": "write IPv4 or IPv6",
		"class create a --family IPv4 --min-length 24": "[min-length max-length]",
		"claim list -o custom-columns":                 "write custom-columns=... after it",
		"claim list -o custom-columns=NAME":            "write NAME:FIELD",
		"claim list -o custom-columns=A:.a[":           "write a field such as",
		"claim list all":                               "unknown command",
		"claim create a b":                             "accepts at most 1 arg",
		"claim create --length x":                      "write a prefix length, 1 to 32 for IPv4 and 1 to 128 for IPv6",
		"claim create --class a --pool b":              "[class pool]",
		"claim create --workspace root:a":              "give --pool or --selector with it",
		"claim create a --name b":                      "give one",
		"claim create --family 4":                      "write IPv4 or IPv6",
		"claim create --reclaim-policy keep":           "write Delete or Retain",
		"claim create --unmet-policy never":            "write Wait or Refuse",
		"claim create --pool p --wait=-1s":             "write a duration such as 30s",
		"claim create --dry-run=perhaps":               "write client or server",
		"claim create -l a=(":                          "write labels such as site=fra",
		"claim list -o xml":                            "write one of table, wide",
		"claim list -l a=(":                            "write labels such as site=fra",
		"claim list -o jsonpath={":                     "--output",
		"claim show":                                   "accepts 1 arg",
		"claim release":                                "requires at least 1 arg",
		"pool create a":                                "[cidr parent]",
		"pool create a --parent b":                     "--parent and --length go together",
		"pool create a --cidr c --visibility":          "needs an argument",
		"pool create a --cidr c --visibility world":    "write consumer or shared or platform",
		"pool create a --cidr c --strategy Best":       "write FirstFit or BestFit",
		"pool release a --wait 0":                      "write a duration such as 30s",
		"address show 10.0.0.300":                      "write one such as 192.0.2.7",
		"init ipam":                                    "write a path below root",
		"tenant bind root":                             "write a path below root",
		"why":                                          "accepts 1 arg",
		"why --nonsense a":                             "unknown flag",
		"pool next lab -o xml":                         "write json or yaml or name or csv",
		"ui --port 70000":                              "write a number up to 65535",
		"pool next lab --count 0":                      "write a number from 1 to 1000",
		"claim create ''":                              "the name is empty",
		"claim create --name ''":                       "the name is empty",
		"pool create a --parent '' --workspace root:a": "--parent is empty",
		"pool create a --parent ''":                    "--parent is empty",
		"pool create a --cidr c --unit-length 28":      "give --leading or --trailing with it",
		"pool create a --cidr ''":                      "--cidr is empty",
	} {
		s := newStage(t)
		args := strings.Fields(line)
		for i, arg := range args {
			args[i] = strings.Trim(arg, "'")
		}
		code := s.execute(t.Context(), args)
		if code != exitUsage || !strings.Contains(s.errs.String(), want) || s.out.Len() > 0 {
			t.Errorf("kubectl ipam %s ended with %d and said %q; want %d and %q", line, code, s.errs, exitUsage, want)
		}
	}
}

// Commands that need no server work without one.
func TestWithoutServer(t *testing.T) {
	for line, name := range map[string]string{
		"": "help", "claim create --help": "help_claim_create",
		"claim create web --class internal --length 28 --dry-run":                        "dry_run",
		"pool create lab --cidr 10.8.0.0/16 --class a,b --dry-run=client":                "dry_run_pool",
		"pool create spread --cidr 10.8.0.0/16 --strategy leastutilized --dry-run":       "dry_run_strategy",
		"pool create east --parent lab --length 20 --workspace root:n --dry-run -o json": "dry_run_child",
	} {
		s := newStage(t)
		if code := s.execute(t.Context(), strings.Fields(line)); code != exitOK {
			t.Fatalf("kubectl ipam %s ended with %d: %s", line, code, s.errs)
		}
		golden(t, name, s.out.String())
	}
	s := newStage(t)
	if code := s.execute(t.Context(), []string{"init", "--dry-run"}); code != exitOK ||
		!strings.Contains(s.out.String(), "kind: APIExport") || !strings.Contains(s.out.String(), "kind: CustomResourceDefinition") {
		t.Errorf("init --dry-run ended with %d and %s", code, s.errs)
	}
	if code := s.execute(t.Context(), []string{"version", "--client"}); code != exitOK {
		t.Errorf("version --client ended with %d", code)
	}
}

// Every command says what it is for, and takes the connection flags of kubectl.
func TestCommands(t *testing.T) {
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s is described as %q", cmd.CommandPath(), cmd.Short)
		}
		for _, flag := range []string{"kubeconfig", "context", "namespace", "as", "server"} {
			if cmd.Flag(flag) == nil {
				t.Errorf("%s has no --%s", cmd.CommandPath(), flag)
			}
		}
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	check(newRoot(newStage(t).session))
}

// The exit code comes from the reason of what has gone wrong.
func TestExitCode(t *testing.T) {
	claims := ipamv1alpha1.Resource("ipclaims")
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("something"), 1},
		{usagef("wrong"), 2},
		{apierrors.NewForbidden(claims, "a", nil), 3},
		{apierrors.NewUnauthorized("who"), 3},
		{fmt.Errorf("read: %w", apierrors.NewNotFound(claims, "a")), 4},
		{apierrors.NewConflict(claims, "a", nil), 5},
		{apierrors.NewAlreadyExists(claims, "a"), 5},
		{apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("IPClaim").GroupKind(), "a", nil), 6},
		{refused("claim a", metav1.Condition{Reason: string(ipamv1alpha1.ReasonPoolExhausted)}), 7},
		{apierrors.NewGenericServerResponse(404, "get", claims, "a", "404 page not found", 0, true), 8},
		{apierrors.NewServiceUnavailable("later"), 8},
		{&url.Error{Err: errors.New("refused")}, 8},
		{context.DeadlineExceeded, 8},
		{&url.Error{Err: context.Canceled}, 9},
		{errors.Join(nil, apierrors.NewNotFound(claims, "a")), 4},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("%v ends with %d; want %d", test.err, got, test.want)
		}
	}
}

// Only terminals get colours, unless the user declines them.
func TestPaint(t *testing.T) {
	s := newStage(t)
	if paintFor(s.Out, func(string) string { return "" }) {
		t.Error("what is no terminal gets colours")
	}
	if got := paint(true).red("no"); got != "\x1b[31mno\x1b[0m" {
		t.Errorf("red is %q", got)
	}
}

// A server that reports an impossible share does not end the program.
func TestBar_ImpossibleShare(t *testing.T) {
	t.Parallel()
	for percent, full := range map[float64]int{-5: 0, 0: 0, 100: 16, 250: 16, 1e300: 16} {
		drawn := string(paint(false).bar(ready(gen.Pool("p"), "10.0.0.0/8", ipamv1alpha1.IPv4, percent, 0)))
		if got := strings.Count(drawn, "█"); got != full {
			t.Errorf("%v%% is drawn as %q with %d full cells; want %d", percent, drawn, got, full)
		}
	}
}

// A spinner shows the latest words at each tick, and nothing when it is over.
func TestTurn(t *testing.T) {
	s := newStage(t)
	ticks, words := make(chan time.Time), make(chan string)
	done := make(chan struct{})
	go func() {
		defer close(done)
		turn(s.errs, "first", ticks, words)
	}()
	ticks <- noon
	words <- "second"
	ticks <- noon
	close(words)
	<-done
	if want := "\r\x1b[K⠋ first\r\x1b[K⠙ second\r\x1b[K"; s.errs.String() != want {
		t.Errorf("the spinner has drawn %q; want %q", s.errs, want)
	}
}
