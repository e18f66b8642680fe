package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kcp-ipam/ipam/test/sim/simetcd"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// Simulation plays one story. Its methods are safe for concurrent use.
type Simulation struct {
	t       testing.TB
	story   Story
	profile Profile
	etcd    *simetcd.Etcd
	world   *simkcp.World
	began   time.Time
	oracles *oracles
	logs    bool // the controller's log comes into the trace
	// meddle, unless nil, is called before the story is played, before the state at rest is judged, and before the end
	// is judged. Tests of the oracles break a promise there.
	meddle func(before moment)
	// rests ends the simulation after the state at rest is judged.
	rests bool
	awake atomic.Int64 // since when a controller has run, in Unix nanoseconds; zero: none runs

	mu       sync.Mutex
	random   *rand.Rand
	weather  Weather
	replicas []*process // nil: none runs in that place
	started  []*process
	trace    []string
	findings []Finding
	copies   copies
}

// moment is a part of a simulation.
type moment string

const (
	theStory moment = "the story"
	theRest  moment = "the rest"
	theEnd   moment = "the end"
)

// Finding is a promise of the contract that was broken.
type Finding struct {
	// Oracle is the name of the promise, in capitals.
	Oracle string
	Text   string
}

// String returns the finding in a line.
func (f Finding) String() string { return f.Oracle + ": " + f.Text }

// newSimulation returns a simulation that has not begun. It is called in a bubble.
func newSimulation(story Story) *Simulation {
	s := &Simulation{
		story: story, profile: profiles[story.Profile], random: rand.New(rand.NewPCG(story.Seed, 7)), //nolint:gosec // repeatable
		etcd: simetcd.New(), world: simkcp.New(), began: time.Now(),
	}
	s.replicas = make([]*process, max(1, s.profile.Replicas))
	s.oracles = newOracles(s)
	s.world.Door = s
	s.world.Delay = s.delay
	s.world.StoreUnbound = true
	s.world.OnCommit = func(kind, plural, cluster string, o *unstructured.Unstructured, stored []byte) {
		switch plural {
		case "ipclaims", "ipallocations", "ippools", "apibindings", "ipclasses":
			s.note("    %s %s %s/%s/%s %s", kind, plural, cluster[:1], o.GetNamespace(), o.GetName(), simkcp.Brief(o))
			s.oracles.stored(kind, plural, cluster, o, stored)
		}
	}
	return s
}

// note adds a line to the trace.
func (s *Simulation) note(format string, args ...any) {
	line := fmt.Sprintf("%10.4f ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = append(s.trace, line)
}

// find notes a finding.
func (s *Simulation) find(oracle, format string, args ...any) {
	f := Finding{oracle, fmt.Sprintf(format, args...)}
	s.note("!!! %s", f)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findings = append(s.findings, f)
}

// below returns a random number from 0 to n-1.
func (s *Simulation) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// most returns a random duration up to d.
func (s *Simulation) most(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(s.below(int(d/time.Microsecond)+1)) * time.Microsecond
}

// logger returns the log of the n-th controller.
func (s *Simulation) logger(n int) logr.Logger {
	write := func(prefix, args string) {
		if s.logs || strings.Contains(args, "CREATE is not answered") { // a trace cannot do without the reason
			s.note("        [%d] %s %s", n, prefix, args)
		}
	}
	return funcr.New(write, funcr.Options{Verbosity: s.verbosity()})
}

// verbosity returns the verbosity of the controller's log.
func (s *Simulation) verbosity() int {
	if s.logs {
		return 1
	}
	return 0
}
