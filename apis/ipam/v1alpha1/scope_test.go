package v1alpha1

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A role without an object, or with one without a name, is missing.
func TestScope_Missing(t *testing.T) {
	scope := Scope{"network": {Kind: "Network", Name: "vpc-1"}, "location": {Kind: "Location"}, "rack": {Kind: "Rack", Name: "r1"}}
	if got, want := scope.Missing([]string{"location", "network", "zone"}), []string{"location", "zone"}; !slices.Equal(got, want) {
		t.Errorf("missing are %v, want %v", got, want)
	}
	if got := scope.Only([]string{"network", "zone"}); len(got) != 1 || got["network"].Name != "vpc-1" {
		t.Errorf("the part with network and zone is %v, want the network", got)
	}
	if got := Scope(nil).Missing([]string{"network"}); !slices.Equal(got, []string{"network"}) {
		t.Errorf("no scope lacks %v, want network", got)
	}
}

func TestScopeColumn(t *testing.T) {
	for want, scope := range map[string]Scope{
		"":                           nil,
		"network=vpc-1":              {"network": {APIGroup: "g", Kind: "Network", Name: "vpc-1"}},
		"location=ams,network=vpc-1": {"network": {Kind: "Network", Name: "vpc-1"}, "location": {Kind: "Location", Name: "ams"}},
	} {
		if got := ScopeColumn(scope); got != want {
			t.Errorf("ScopeColumn(%v) = %q, want %q", scope, got, want)
		}
	}
	if got, want := (ScopeRef{APIGroup: "g.example.com", Kind: "Network", Name: "a"}).String(), "Network.g.example.com/a"; got != want {
		t.Errorf("the reference is written %q, want %q", got, want)
	}
}

// Every name of an object fits into a label, and two long ones stay apart.
func TestLabelValue(t *testing.T) {
	long := strings.Repeat("a", 53) + "." + strings.Repeat("b", 199)
	for _, name := range []string{"a", strings.Repeat("a", 63), long, strings.Repeat("a-", 100) + "b"} {
		got := LabelValue(name)
		if problems := validation.IsValidLabelValue(got); len(problems) > 0 {
			t.Errorf("LabelValue(%s) = %s: %v", name, got, problems)
		}
		if len(name) <= 63 && got != name {
			t.Errorf("LabelValue(%s) = %s, want it as it is", name, got)
		}
	}
	if LabelValue(long) == LabelValue(long[:252]+"c") {
		t.Errorf("two names have the label %s", LabelValue(long))
	}
}
