package sim

import (
	"slices"
	"strings"
	"testing"
)

// A drawn story is read again as it was printed.
func TestParse_ReadsPrintedStories(t *testing.T) {
	t.Parallel()
	for _, name := range Profiles() {
		story := Draw(name, 7)
		again, err := Parse(story.String())
		if err != nil {
			t.Errorf("%s: Parse: %v", name, err)
			continue
		}
		if got, want := again.String(), story.String(); got != want {
			t.Errorf("%s: Parse(String()) = %s, want %s", name, got, want)
		}
	}
}

// Shrink leaves out all that the finding does not need.
func TestShrink_LeavesNeededActions(t *testing.T) {
	t.Parallel()
	story := Draw("networks", 7)
	first, second := story.Steps[3].String(), story.Steps[len(story.Steps)-3].Parts[0].String()
	needs := func(s Story) bool {
		text := s.String()
		return strings.Contains(text, story.Steps[3].Parts[0].String()) && strings.Contains(text, second)
	}
	got := Shrink(story, 10_000, needs)
	if !needs(got) || len(got.Steps) > 2 || slices.ContainsFunc(got.Steps, func(s Step) bool { return len(s.Parts) > 1 || s.Pause > 0 }) {
		t.Errorf("Shrink leaves\n%s, want no more than a part of %q and %q", got, first, second)
	}
}
