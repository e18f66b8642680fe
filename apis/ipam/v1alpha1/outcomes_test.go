package v1alpha1

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// Every reason of the condition Allocated has an outcome; so have some of other
// conditions, on which a program may end.
func TestOutcomes_Complete(t *testing.T) {
	t.Parallel()
	others := map[Reason]bool{ReasonValidated: true, ReasonInUse: true, ReasonUnused: true, ReasonUniqueWithinDiffers: true}
	reasons := closedReasons(t)
	for _, reason := range reasons {
		outcome, ok := outcomes[reason]
		if !ok {
			t.Errorf("reason %s has no outcome", reason)
		}
		if (outcome.exit == 0) != (outcome.remedy == "") {
			t.Errorf("reason %s ends with %d and the remedy %q", reason, outcome.exit, outcome.remedy)
		}
	}
	if want := len(reasons) + len(others); len(outcomes) != want {
		t.Errorf("there are %d outcomes; want %d", len(outcomes), want)
	}
	if got := Reason("Unheard").ExitCode(); got != 1 {
		t.Errorf("an unknown reason ends with %d; want 1", got)
	}
}

// The remedy for a single address does not advise a smaller block.
func TestRemedyFor_ASingleAddressIsNotToBeSmaller(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		requested string
		family    IPFamily
		smaller   bool
	}{
		{"/28", IPv4, true}, {"/32", IPv6, true}, {"192.0.2.0/28", IPv4, true}, {"/127", "", true},
		{"/32", IPv4, false}, {"/128", IPv6, false}, {"/32", "", false}, {"192.0.2.7", IPv4, false}, {"192.0.2.7/32", "", false}, {"2001:db8::7", IPv6, false}, {"", IPv4, false},
	} {
		got := ReasonPoolExhausted.RemedyFor(test.requested, test.family)
		if strings.Contains(got, "smaller") != test.smaller || !strings.Contains(got, "release a block, or ask for another pool") {
			t.Errorf("the remedy of a full pool for %q of %q is %q; it is to advise a smaller block: %t", test.requested, test.family, got, test.smaller)
		}
	}
	if got, want := ReasonQuotaExceeded.RemedyFor("/32", IPv4), ReasonQuotaExceeded.Remedy(); got != want {
		t.Errorf("the remedy of another reason is %q; want %q", got, want)
	}
}

// The table that people read says the same.
func TestOutcomes_Documented(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../../docs/reasons.md"))(t)
	rows := regexp.MustCompile(`(?m)^\| \[(\w+)\]\(#\w+\) \|.*\| (\d) \|$`).FindAllSubmatch(page, -1)
	documented := map[Reason]string{}
	for _, row := range rows {
		documented[Reason(row[1])] = string(row[2])
	}
	for reason, outcome := range outcomes {
		if reason == ReasonValidated || reason == ReasonInUse || reason == ReasonUnused {
			continue // of other conditions
		}
		if got := documented[reason]; got != fmt.Sprint(outcome.exit) {
			t.Errorf("docs/reasons.md says %q for %s; want %d", got, reason, outcome.exit)
		}
	}
}

// closedReasons reads the closed list of reasons, those of the condition Allocated,
// from the source.
func closedReasons(t *testing.T) []Reason {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "conditions.go", nil, parser.ParseComments))(t)
	var found []Reason
	ast.Inspect(file, func(node ast.Node) bool {
		if list, ok := node.(*ast.GenDecl); ok && !strings.HasPrefix(list.Doc.Text(), "Reasons of the condition Allocated") {
			return false
		}
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
			return true
		}
		value := must.Get(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
		found = append(found, Reason(value))
		return true
	})
	if len(found) == 0 {
		t.Fatal("conditions.go has no list of the reasons of the condition Allocated")
	}
	return found
}
