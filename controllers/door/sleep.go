package door

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// asleep is how many requests may sleep. Beyond that, each workspace may still have one, because some users have many
	// workspaces. Each request that sleeps keeps its object in memory. The number of connections bounds all of them.
	asleep = inFlight
	// asleepShare is how many requests of one workspace may sleep.
	asleepShare = 16
	// dryShare is how many dry runs of DELETEs one workspace may have at once. They do not count for asleep and
	// asleepShare. A dry run changes nothing and ends at once, so users can send them in a loop.
	dryShare = 2
)

// errAsleep: too many requests sleep, of the workspace or of all.
var errAsleep = errors.New("too many CREATEs of this workspace, or of all, wait to be decided")

// sleepers counts the requests that sleep, by workspace. The zero value is ready; safe for concurrent use.
type sleepers struct {
	share int // how many may be of one workspace; 0: asleepShare
	mu    sync.Mutex
	of    map[ledger.ClusterName]int // no number is 0
	all   int
	ended chan struct{} // closed when a request that sleeps ends; nil: nobody waits for that
}

func (s *sleepers) begin(cluster ledger.ClusterName) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room(cluster)
}

// room counts a request if it may sleep. The caller holds mu.
func (s *sleepers) room(cluster ledger.ClusterName) (ok bool) {
	if of := s.of[cluster]; of == cmp.Or(s.share, asleepShare) || s.all >= asleep && of > 0 {
		return false
	}
	if s.of == nil {
		s.of = map[ledger.ClusterName]int{}
	}
	s.all++
	s.of[cluster]++
	return true
}

// await counts a request as soon as it may sleep. It fails when ctx ends before.
func (s *sleepers) await(ctx context.Context, cluster ledger.ClusterName) error {
	for {
		ended, ok := s.turn(cluster)
		if ok {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errAsleep, ctx.Err())
		}
	}
}

// turn counts a request if it may sleep. Otherwise it returns a channel that is closed when a request that sleeps ends.
func (s *sleepers) turn(cluster ledger.ClusterName) (ended <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room(cluster) {
		return nil, true
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.ended, false
}

func (s *sleepers) end(cluster ledger.ClusterName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[cluster]--; s.of[cluster] == 0 {
		delete(s.of, cluster)
	}
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// seat is the slot that a request has, and the sleepers among which it counts while it sleeps.
type seat struct {
	slots    chan struct{}
	sleepers *sleepers
}

// seated is the key by which the context of a request has its seat.
type seated struct{}

// among returns a context in which the request counts among these sleepers.
func (s *sleepers) among(ctx context.Context) context.Context {
	at, ok := ctx.Value(seated{}).(seat)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, seated{}, seat{at.slots, s})
}

// Sleep calls the function wait, which does nothing but wait for something. Meanwhile the request gives its slot to
// others, so that many requests of one workspace that wait delay nobody. Sleep fails at once if too many sleep already.
// A large CREATE keeps its slot, which bounds the memory that large requests take. It delays only large ones. A large
// DELETE gives up its slot, because it has dropped the text of its object before.
func Sleep(ctx context.Context, cluster ledger.ClusterName, wait func(context.Context) error) error {
	s, ok := ctx.Value(seated{}).(seat)
	if !ok {
		return wait(ctx)
	}
	if !s.sleepers.begin(cluster) {
		return errAsleep
	}
	defer s.sleepers.end(cluster)
	<-s.slots
	defer func() { s.slots <- struct{}{} }() // whatever happens: the request gives it back
	return wait(ctx)
}

// SleepInTurn does what Sleep does, for a DELETE that has to be decided however many there are. If too many requests
// sleep, the DELETE waits for its turn, without a slot. Requests of one workspace wait for one another, and delay no
// other workspace. The requests that the API server has in flight bound how many wait.
func SleepInTurn(ctx context.Context, cluster ledger.ClusterName, wait func(context.Context) error) error {
	s, ok := ctx.Value(seated{}).(seat)
	if !ok {
		return wait(ctx)
	}
	<-s.slots
	defer func() { s.slots <- struct{}{} }() // whatever happens: the request gives it back
	if err := s.sleepers.await(ctx, cluster); err != nil {
		return err
	}
	defer s.sleepers.end(cluster)
	return wait(ctx)
}
