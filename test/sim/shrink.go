package sim

import (
	"slices"
)

// Shrink returns the shortest story that it finds by leaving out steps and actions while holds reports true. holds plays a
// story; it is asked at most budget times.
func Shrink(story Story, budget int, holds func(Story) bool) Story {
	s := &shrinker{story: story, budget: budget, holds: holds}
	for size := (len(s.story.Steps) + 1) / 2; size > 0; size /= 2 {
		s.dropSteps(size)
	}
	s.dropParts()
	s.shorten()
	return s.story
}

type shrinker struct {
	story  Story
	budget int
	holds  func(Story) bool
}

// try keeps a shorter story if the finding is still there.
func (s *shrinker) try(steps []Step) bool {
	if s.budget == 0 {
		return false
	}
	s.budget--
	shorter := s.story
	shorter.Steps = steps
	if !s.holds(shorter) {
		return false
	}
	s.story = shorter
	return true
}

// dropSteps leaves out size steps at a time. The pauses stay, so that all other steps begin when they did.
func (s *shrinker) dropSteps(size int) {
	for at := 0; at < len(s.story.Steps); {
		end := min(at+size, len(s.story.Steps))
		if !s.try(without(s.story.Steps, at, end)) {
			at = end
		}
	}
}

// without returns the steps without those from index from up to index to. Each pause passes to the actor's next step.
func without(steps []Step, from, to int) []Step {
	left := slices.Concat(steps[:from], steps[to:])
	for _, gone := range steps[from:to] {
		for i := from; i < len(left); i++ {
			if left[i].Actor == gone.Actor {
				left[i].Pause += gone.Pause
				break
			}
		}
	}
	return left
}

// dropParts leaves out single actions.
func (s *shrinker) dropParts() {
	for i := range s.story.Steps {
		for j := 0; j < len(s.story.Steps[i].Parts) && len(s.story.Steps[i].Parts) > 1; {
			steps := slices.Clone(s.story.Steps)
			steps[i].Parts = slices.Delete(slices.Clone(steps[i].Parts), j, j+1)
			if !s.try(steps) {
				j++
			}
		}
	}
}

// shorten takes the pauses out.
func (s *shrinker) shorten() {
	for i := range s.story.Steps {
		if s.story.Steps[i].Pause > 0 {
			steps := slices.Clone(s.story.Steps)
			steps[i].Pause = 0
			s.try(steps)
		}
	}
}
