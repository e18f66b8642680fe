//go:build long

package stack

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// victim is a process that is killed, and started again over its data.
type victim struct {
	name  string
	kill  func(*site)
	start func(*site)
}

// victims are all victims, in the order in which they are started: each needs the ones before it.
var victims = []victim{
	{
		"etcd",
		func(s *site) { s.must(s.store.Members[0].Kill()) },
		func(s *site) {
			_, err := s.store.Members[0].Start()
			s.must(err)
			s.must(s.store.Ready(s.Context()))
		},
	},
	{"kcp", func(s *site) { framework.KillKCP(s) }, func(s *site) { framework.StartKCP(s) }},
	{
		"controller",
		func(s *site) {
			s.must(s.platform.Probe(s.Context(), "/healthz")) // the controller has not ended by itself
			s.platform.KillController(s)
		},
		func(s *site) { s.platform.StartController(s) },
	},
}

// strike kills victims in turns of a drawn order, and sometimes a second victim together with the first.
func (s *site) strike(random *rand.Rand) {
	var turn []int
	for range *faults {
		if len(turn) == 0 {
			turn = random.Perm(len(victims))
		}
		struck := map[int]bool{turn[0]: true}
		if turn = turn[1:]; random.IntN(3) == 0 {
			struck[random.IntN(len(victims))] = true
		}
		s.fault(struck, between(random, 500, 4000), between(random, 0, 2000))
	}
	retry.Pause(s.Context(), 2*time.Second)
	s.upToReuse()
}

// fault kills victims after a while, and starts them again after another while.
func (s *site) fault(struck map[int]bool, after, away time.Duration) {
	retry.Pause(s.Context(), after)
	var names []string
	for i, v := range slices.Backward(victims) { // the controller first, which must be well until then
		if struck[i] {
			names = append(names, v.name)
			v.kill(s)
		}
	}
	retry.Pause(s.Context(), away)
	for i, v := range victims {
		if struck[i] {
			v.start(s)
		}
	}
	s.Logf("after %s, %v was away for %s", after, names, away)
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// between draws a duration from least to most milliseconds.
func between(random *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+random.IntN(most-least)) * time.Millisecond
}
