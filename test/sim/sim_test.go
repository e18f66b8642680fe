package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	seed    = flag.Uint64("seed", 0, "play the story of this seed alone; -v prints it, and all that happens")
	profile = flag.String("profile", "calm", "the profile of -seed, and the profiles of -histories, separated by commas; all is every one")
	file    = flag.String("story", "", "play the story in this file")
	shrink  = flag.Int("shrink", 0, "if there is a finding, shrink the story by playing up to so many shorter ones, and print it")
	logs    = flag.Bool("logs", false, "with -seed or -story and -v, print the controller's log, too")
)

// fixed are the seeds whose short stories each change has to pass, by profile.
var fixed = map[string][]uint64{
	"calm":     {1, 2, 3, 4, 5, 100},
	"chaos":    {1, 2, 3, 4, 5, 101},
	"forged":   {1, 2, 3, 4, 5, 101},
	"hostile":  {1, 2, 3, 4, 5, 100},
	"networks": {3, 4, 11, 12, 101, 105},
	"recovery": {1, 2, 3, 4, 5, 6},
	"replicas": {1, 2, 3, 4, 5, 14},
	"restore":  {1, 2, 3, 4, 5, 12},
	"unbind":   {1, 2, 3, 4, 5, 6},
	"waiting":  {1, 2, 3, 4, 21, 22},
}

// Each history of the fixed set keeps all promises.
func TestSim_KeepsAllPromisesInTheFixedHistories(t *testing.T) {
	if *seed != 0 || *file != "" || *histories > 0 {
		t.Logf("the flags name other histories")
		return
	}
	for _, name := range sorted(fixed) {
		for _, n := range fixed[name] {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				t.Parallel()
				judge(t, Draw(name, n).Short())
			})
		}
	}
}

// Each story that once ended with a finding keeps all promises now.
func TestSim_KeepsAllPromisesInTheKeptStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.story")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no kept stories: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".story"), func(t *testing.T) {
			t.Parallel()
			judge(t, parsed(t, name))
		})
	}
}

// The flags -seed, -profile and -story play one story, for a person.
func TestSim_OneStory(t *testing.T) {
	var story Story
	switch {
	case *file != "":
		story = parsed(t, *file)
	case *seed != 0 && *histories == 0:
		story = Draw(*profile, *seed)
	default:
		return
	}
	report := Play(t, story, *logs)
	if testing.Verbose() {
		fmt.Println(story)
		fmt.Println(strings.Join(report.Trace, "\n"))
	}
	fmt.Printf("%d changes were stored, and the controller was started %d times\n", report.Commits, report.Starts)
	for _, f := range report.Findings {
		t.Error(f)
	}
	if len(report.Findings) > 0 && *shrink > 0 {
		shorter := shrunk(t, story, report.Findings[0].Oracle, *shrink)
		fmt.Printf("\nStill %s with:\n\n%s", report.Findings[0].Oracle, shorter)
	}
}

// shrunk shrinks a story that ends with a finding of an oracle. Each shorter story is played up to three times,
// because a finding may depend on the moment.
func shrunk(t *testing.T, story Story, oracle string, budget int) Story {
	t.Helper()
	return Shrink(story, budget, func(s Story) bool {
		for range 3 {
			if slices.ContainsFunc(Play(t, s, false).Findings, func(f Finding) bool { return f.Oracle == oracle }) {
				return true
			}
		}
		return false
	})
}

// parsed reads a story.
func parsed(t *testing.T, name string) Story {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	story, err := Parse(string(text))
	if err != nil {
		t.Fatalf("Parse(%s): %v", name, err)
	}
	return story
}

// judge plays a story, and fails with its findings.
func judge(t *testing.T, story Story) {
	t.Helper()
	report := Play(t, story, false)
	for _, f := range report.Findings {
		t.Error(f)
	}
	if len(report.Findings) > 0 {
		t.Logf("play it again from a file, by -v -run OneStory -story FILE:\n%s", story)
	}
}
