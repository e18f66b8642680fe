package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

const (
	// patience is how long a client waits for an answer.
	patience = 60 * time.Second
	// resting is how long nothing happens before the state at rest is judged. It exceeds the longest cooldown, lease and
	// doubt about a CREATE.
	resting = 5 * time.Minute
)

// Report is the result of a story.
type Report struct {
	Findings []Finding
	Trace    []string // a line for each action, answer, stored change and finding
	Commits  int      // stored changes
	Starts   int      // of the controller
}

// Play plays a story in a bubble, and judges it. With logs, the controller's log comes into the trace.
func Play(t *testing.T, story Story, logs bool) (report Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(story)
		s.logs = logs
		report = s.run(t)
	})
	return report
}

// run plays the story, lets it rest, deletes everything, and asks the oracles.
func (s *Simulation) run(t testing.TB) Report {
	t.Helper()
	s.t = t
	s.furnish()
	s.up()
	time.Sleep(15 * time.Second)
	s.begin(theStory)
	s.play()
	s.calm()
	time.Sleep(resting)
	s.begin(theRest)
	s.atRest()
	if s.oracles.off || s.rests { // blocks of unknown claims stay: "a brake keeps their blocks", until an operator has decided
		s.finish()
		return s.report()
	}
	s.clear()
	time.Sleep(resting)
	s.begin(theEnd)
	s.atEnd()
	s.finish()
	return s.report()
}

func (s *Simulation) report() Report {
	return Report{Findings: s.findings, Trace: s.trace, Commits: s.oracles.commits, Starts: len(s.started)}
}

// begin notes that a part of the simulation begins.
func (s *Simulation) begin(part moment) {
	s.note("--- %s", part)
	if s.meddle != nil {
		s.meddle(part)
	}
}

// play lets all actors do their steps.
func (s *Simulation) play() {
	steps := map[string][]Step{}
	for _, step := range s.story.Steps {
		steps[step.Actor] = append(steps[step.Actor], step)
	}
	var actors sync.WaitGroup
	for _, actor := range sorted(steps) {
		actors.Go(func() {
			for _, step := range steps[actor] {
				time.Sleep(step.Pause)
				s.do(step)
			}
		})
	}
	actors.Wait()
}

// do does a step.
func (s *Simulation) do(step Step) {
	var parts sync.WaitGroup
	for _, part := range step.Parts {
		actor := part.Actor
		if actor == "" {
			actor = step.Actor
		}
		parts.Go(func() {
			time.Sleep(part.Delay)
			verbs[part.Words[0]].do(&player{Simulation: s, actor: actor, user: s.user(actor)}, part.Words[1:])
		})
	}
	parts.Wait()
}

// user returns the user that an actor is. Other actors than tenants act in the platform's workspace.
func (s *Simulation) user(actor string) simkcp.User {
	cluster := simkcp.Platform
	if len(actor) == 2 && tenants[actor[:1]] != "" {
		cluster = tenants[actor[:1]]
	}
	return simkcp.User{World: s.world, Cluster: cluster, Name: actor}
}

// calm ends all faults.
func (s *Simulation) calm() {
	s.change(weathers["fair"])
	s.up()
	for _, letter := range letters {
		if !s.bound(letter) {
			s.world.Bind(tenants[letter], "root:"+letter)
		}
	}
}

// player does an action for an actor.
type player struct {
	*Simulation
	actor string
	user  simkcp.User
}

// said notes what an actor did, and the answer.
func (p *player) said(what string, o *unstructured.Unstructured, err error) {
	switch {
	case err != nil:
		p.note("%-4s %s: %v", p.actor, what, err)
		p.oracles.shown(p.user.Cluster, what, err.Error())
	case o != nil:
		p.note("%-4s %s: %s", p.actor, what, simkcp.Brief(o))
	default:
		p.note("%-4s %s", p.actor, what)
	}
}

// patiently returns the context of a request.
func patiently() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// usage returns an error about the words of an action.
func usage(words []string) error { return fmt.Errorf("cannot do %q", words) }
