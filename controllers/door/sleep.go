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
	// asleep is how many requests may sleep, besides one of each workspace: somebody may have many workspaces. Each
	// keeps its object in memory. The connections bound them all.
	asleep = inFlight
	// asleepShare is how many of them may be of one workspace.
	asleepShare = 16
	// dryShare is how many dry runs of DELETEs one workspace may have at once, besides those. A dry run changes nothing
	// and ends at once, so users can send them in a loop.
	dryShare = 2
)

// errAsleep: too many CREATEs sleep, of the workspace or of all.
var errAsleep = errors.New("too many CREATEs of this workspace, or of all, wait to be decided")

// sleepers counts the requests that sleep, by workspace. The zero value is ready; safe for concurrent use.
type sleepers struct {
	share int // how many may be of one workspace; 0: asleepShare
	mu    sync.Mutex
	of    map[ledger.ClusterName]int // none that is 0
	all   int
	ended chan struct{} // closed when one of them ends; nil: nobody waits for that
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

// turn counts a request if it may sleep. Else ended is closed when one that sleeps has ended.
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

// seat is the slot that a request has.
type seat struct {
	slots    chan struct{}
	sleepers *sleepers
}

// seated is the key by which the context of a request has its seat.
type seated struct{}

// among returns a context in which the request sleeps among these.
func (s *sleepers) among(ctx context.Context) context.Context {
	at, ok := ctx.Value(seated{}).(seat)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, seated{}, seat{at.slots, s})
}

// Sleep calls wait, in which an Answerer does nothing but wait for something. Meanwhile the request gives its slot to
// others, so that many of one workspace that wait delay nobody. It fails at once if there are many. A large request
// keeps its slot, which bounds the memory that large ones take: it delays large ones alone. A large DELETE gives its
// slot, too: it has dropped the text of its object before.
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

// SleepInTurn does as Sleep for a DELETE, which is to be decided however many there are: where many sleep it waits for
// its turn, without a slot. So the requests of one workspace wait for one another, and those of other workspaces do
// not. How many wait is bounded by the requests that the API server has in flight.
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
