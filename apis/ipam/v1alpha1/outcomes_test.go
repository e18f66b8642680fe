package v1alpha1

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// Every reason has an outcome, and no outcome is of anything else.
func TestOutcomes_Complete(t *testing.T) {
	t.Parallel()
	reasons := declaredReasons(t)
	for _, reason := range reasons {
		outcome, ok := outcomes[reason]
		if !ok {
			t.Errorf("reason %s has no outcome", reason)
		}
		if (outcome.exit == 0) != (outcome.remedy == "") {
			t.Errorf("reason %s ends with %d and the remedy %q", reason, outcome.exit, outcome.remedy)
		}
	}
	if len(outcomes) != len(reasons) {
		t.Errorf("there are %d outcomes for %d reasons", len(outcomes), len(reasons))
	}
	if got := Reason("Unheard").ExitCode(); got != 1 {
		t.Errorf("an unknown reason ends with %d; want 1", got)
	}
}

// The table that people read says the same.
func TestOutcomes_Documented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
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

// declaredReasons reads the constants of type Reason from the source.
func declaredReasons(t *testing.T) []Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []Reason
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, Reason(value))
		return true
	})
	return found
}
