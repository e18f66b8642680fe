//go:build long

package stack

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// victim is a process that is killed, and started again on its data.
type victim struct {
	name  string
	kill  func(*site)
	start func(*site)
}

// victims are all there are, in the order in which they are started: each waits for
// those before it.
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
			s.must(s.platform.Probe(s.Context(), "/healthz")) // it has not ended by itself
			s.platform.KillController(s)
		},
		func(s *site) { s.platform.StartController(s) },
	},
}

// strike kills one after the other, in turns of a drawn order, and sometimes a second
// one with it.
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

// fault kills some after a while, and starts them again after another.
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

// between draws a time of so many milliseconds.
func between(random *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+random.IntN(most-least)) * time.Millisecond
}
