package door

import (
	"context"
	"errors"
	"sync"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// asleep is how many requests may sleep. Each keeps its claim in memory.
	asleep = inFlight
	// asleepShare is how many of them may be of one workspace.
	asleepShare = 16
)

// errAsleep: too many CREATEs sleep, of the workspace or of all.
var errAsleep = errors.New("too many CREATEs of this workspace, or of all, wait to be decided")

// sleepers counts the requests that sleep, by workspace. The zero value is ready; safe for concurrent use.
type sleepers struct {
	mu  sync.Mutex
	of  map[ledger.ClusterName]int // none that is 0
	all int
}

func (s *sleepers) begin(cluster ledger.ClusterName) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == asleep || s.of[cluster] == asleepShare {
		return false
	}
	if s.of == nil {
		s.of = map[ledger.ClusterName]int{}
	}
	s.all++
	s.of[cluster]++
	return true
}

func (s *sleepers) end(cluster ledger.ClusterName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[cluster]--; s.of[cluster] == 0 {
		delete(s.of, cluster)
	}
}

// seat is the slot that a request has.
type seat struct {
	slots    chan struct{}
	sleepers *sleepers
}

// seated is the key by which the context of a request has its seat.
type seated struct{}

// Sleep calls wait, in which an Answerer does nothing but wait for something. Meanwhile the request gives its slot to
// others, so that many of one workspace that wait delay nobody. It fails at once if there are many. A large request keeps
// its slot, which bounds the memory that large ones take: it delays large ones alone.
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
