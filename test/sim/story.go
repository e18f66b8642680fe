package sim

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Story is a history that is written down. Its text is
//
//	# a comment
//	profile calm
//	seed 7
//
//	a0   +1.5s create ac1 flat retain
//	a0   +0s delete ac1 & +2ms b0: create bc1 flat
//
// A step begins with its actor, and the pause after the actor's step before. Its parts begin at once, each after a delay
// of its own, and the step ends with the last of them. A part may name another actor, who then does it.
type Story struct {
	// Comment says the subject of the story. It may be empty.
	Comment string
	// Profile names the [Profile] that the story is played with.
	Profile string
	// Seed determines the delays and the lost requests.
	Seed  uint64
	Steps []Step
}

// Step is one step of an actor.
type Step struct {
	Actor string
	Pause time.Duration
	Parts []Part
}

// Part is an action of a step.
type Part struct {
	Delay time.Duration
	Actor string // empty: that of the step
	Words []string
}

// Short returns the story of the first quarter of each actor's steps.
func (s Story) Short() Story {
	all, kept := map[string]int{}, map[string]int{}
	for _, step := range s.Steps {
		all[step.Actor]++
	}
	whole := s.Steps
	s.Steps = nil
	for _, step := range whole {
		if kept[step.Actor] < (all[step.Actor]+3)/4 {
			kept[step.Actor]++
			s.Steps = append(s.Steps, step)
		}
	}
	return s
}

// String returns the text that Parse reads.
func (s Story) String() string {
	var b strings.Builder
	for line := range strings.Lines(s.Comment) {
		fmt.Fprintf(&b, "# %s\n", strings.TrimSpace(line))
	}
	fmt.Fprintf(&b, "profile %s\nseed %d\n\n", s.Profile, s.Seed)
	for _, step := range s.Steps {
		fmt.Fprintln(&b, step)
	}
	return b.String()
}

// String returns a line of a story.
func (s Step) String() string {
	parts := make([]string, len(s.Parts))
	for i, p := range s.Parts {
		parts[i] = p.String()
	}
	return fmt.Sprintf("%-8s +%s %s", s.Actor, s.Pause, strings.Join(parts, " & "))
}

func (p Part) String() string {
	text := strings.Join(p.Words, " ")
	if p.Actor != "" {
		text = p.Actor + ": " + text
	}
	if p.Delay > 0 {
		text = "+" + p.Delay.String() + " " + text
	}
	return text
}

// Parse reads a story.
func Parse(text string) (Story, error) {
	story := Story{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		if err := story.read(strings.TrimSpace(lines.Text())); err != nil {
			return story, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if _, ok := profiles[story.Profile]; !ok {
		return story, fmt.Errorf("profile %q is not known; use one of %v", story.Profile, Profiles())
	}
	return story, lines.Err()
}

// read reads a line.
func (s *Story) read(line string) (err error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return nil
	case words[0] == "#":
		s.Comment += strings.Join(words[1:], " ") + "\n"
		return nil
	case len(words) == 2 && words[0] == "profile":
		s.Profile = words[1]
		return nil
	case len(words) == 2 && words[0] == "seed":
		s.Seed, err = strconv.ParseUint(words[1], 10, 64)
		return err
	case len(words) < 3:
		return fmt.Errorf("%q is not a step; write an actor, a pause and an action", line)
	}
	step := Step{Actor: words[0]}
	if step.Pause, err = time.ParseDuration(words[1]); err != nil {
		return fmt.Errorf("the pause of a step: %w", err)
	}
	if step.Parts, err = parseParts(strings.Join(words[2:], " ")); err != nil {
		return err
	}
	s.Steps = append(s.Steps, step)
	return nil
}

// parseParts reads actions that begin at once.
func parseParts(text string) (parts []Part, err error) {
	for action := range strings.SplitSeq(text, " & ") {
		part := Part{Words: strings.Fields(action)}
		if len(part.Words) > 0 && strings.HasPrefix(part.Words[0], "+") {
			if part.Delay, err = time.ParseDuration(part.Words[0]); err != nil {
				return nil, fmt.Errorf("the delay of an action: %w", err)
			}
			part.Words = part.Words[1:]
		}
		if len(part.Words) > 0 && strings.HasSuffix(part.Words[0], ":") {
			part.Actor, part.Words = strings.TrimSuffix(part.Words[0], ":"), part.Words[1:]
		}
		if len(part.Words) == 0 {
			return nil, fmt.Errorf("%q has no action", text)
		}
		if _, ok := verbs[part.Words[0]]; !ok {
			return nil, fmt.Errorf("%q is not an action", part.Words[0])
		}
		parts = append(parts, part)
	}
	return parts, nil
}
