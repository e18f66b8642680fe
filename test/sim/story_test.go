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
func TestShrink_KeepsTheNeededActions(t *testing.T) {
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

// Short keeps the first steps of each actor.
func TestShort_KeepsTheBeginningOfEachActor(t *testing.T) {
	t.Parallel()
	const head, a, b = "profile calm\nseed 1\n", "a0 +0s create a-c0 flat\na0 +1s delete a-c0\n", "b0 +0s create b-c0 flat\n"
	story, err := Parse(head + a + b + strings.Repeat("a0 +1s delete a-c1\n", 4) + strings.Repeat("b0 +1s delete b-c1\n", 3))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	want, err := Parse(head + a + b)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	if got := story.Short(); got.String() != want.String() {
		t.Errorf("Short() = %s, want %s", got, want)
	}
}
