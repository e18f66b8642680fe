package engine

import (
	"errors"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// endGrace is how much later an Allocator that does not lead ends a cooldown: the
	// leader has done so by then, and nobody writes what somebody else writes.
	endGrace = 2 * time.Second
	// endLook is how long a timer runs at most. It runs by the monotonic clock, and a
	// cooldown ends by the wall clock, which may be set.
	endLook = time.Minute
	// endPause is the time between two looks at what is over: where blocks are freed all the
	// time, one transaction ends the cooldowns of many.
	endPause = 100 * time.Millisecond
	// endRetry is the pause after a fault.
	endRetry = time.Second
)

// alarm is the one timer of a space, for the cooldown that ends next.
type alarm struct {
	at      time.Time // what it waits for; zero: it is not set
	stop    func() bool
	running bool      // a goroutine ends cooldowns
	after   time.Time // not before
}

// updateAlarm sets the timer of the space for what ends next.
func (s *Worker) updateAlarm() {
	if s.alarm.running || len(s.Cooling.Blocks) == 0 && s.alarm.at.IsZero() {
		return
	}
	at := s.nextEnd()
	if at.Equal(s.alarm.at) {
		return
	}
	if !s.alarm.at.IsZero() {
		s.alarm.stop()
	}
	if s.alarm.at = at; at.IsZero() {
		return
	}
	wait := min(max(0, at.Sub(s.Engine.Hooks.Now())), endLook)
	s.alarm.stop = s.Engine.Hooks.After(wait, func() { s.Engine.Spawn(s.endDue) })
}

// nextEnd is when this Allocator ends the next cooldown of the space; zero if nothing
// cools.
func (s *Worker) nextEnd() (next time.Time) {
	if s.Gone {
		return time.Time{}
	}
	for _, p := range s.Room.Pools {
		if at := p.Cools.Next(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		return next
	}
	if next = next.Add(s.grace()); next.Before(s.alarm.after) {
		return s.alarm.after
	}
	return next
}

func (s *Worker) grace() time.Duration {
	if Leadership(s.Engine.Leads.Load()) == Following {
		return endGrace
	}
	return 0
}

// endDue ends the cooldowns of the space whose time is over.
func (s *Worker) endDue() {
	s.Lock()
	running := s.alarm.running
	s.alarm.running, s.alarm.at = true, time.Time{}
	s.Unlock()
	if running {
		return
	}
	_, err := s.Engine.EndAll(func() *EndCooldowns { return &EndCooldowns{} }, func(o Op) error { return s.Do(s.Engine.Ctx, o) })
	s.Lock()
	defer s.Unlock()
	s.alarm.running, s.alarm.after = false, s.Engine.Hooks.Now().Add(endPause)
	if err != nil {
		s.alarm.after = s.Engine.Hooks.Now().Add(endRetry)
	}
}

// EndAll frees what the ops find, each as much as one transaction carries, until nothing
// is left. It reports whether there was any.
func (eng *Engine) EndAll(next func() *EndCooldowns, do func(Op) error) (ended bool, err error) {
	for {
		o := next()
		err := do(o)
		switch {
		case errors.Is(err, errNothing):
			return ended, nil
		case errors.Is(err, ErrStale): // it was too large
			continue
		case err != nil:
			return ended, err
		case !o.full:
			return true, nil
		}
		ended = true
	}
}

// errNothing: no block is to be freed.
var errNothing = errors.New("no cooldown is over")

// EndCooldowns is the op that frees cooling blocks: those whose time is over, or all of a pool or
// a prefix.
type EndCooldowns struct {
	Of     ledger.PoolID // all blocks of this pool
	Within netip.Prefix  // all blocks that overlap this prefix
	ended  []netip.Prefix
	full   bool // there may be more
}

// Cluster is no workspace: the op has a lane of its own.
func (l *EndCooldowns) Cluster() ledger.ClusterName { return "" }

// Claim is none: the op has a transaction of its own.
func (l *EndCooldowns) Claim() (ledger.ClaimID, bool) { return "", false }

// Plan takes as many as one transaction carries. Nothing has to be compared but the head:
// what cools as of that, cools.
func (l *EndCooldowns) Plan(s *Worker) (Share, error) {
	l.ended, l.full = nil, false
	if p := s.Pool(l.Of); l.Of != "" && (p == nil || p.State != ledger.PoolDraining) {
		return Share{}, errNothing // another pool is there by its ID
	}
	limit, bytes := max(1, int(s.Engine.Limit.Load())-8), 0
	var sh Share
	for prefix := range l.due(s) {
		block, claim := s.Engine.Keys.Block(s.ID, prefix), s.Engine.Keys.Claim(s.Cooling.Blocks[prefix].Claim)
		sh.Then = append(sh.Then, clientv3.OpTxn(nil, store.Ops(store.Remove(block), store.Remove(claim)), nil))
		bytes += len(block) + len(claim)
		if l.ended = append(l.ended, prefix); len(l.ended) == limit || bytes > MaxGroupBytes/2 {
			l.full = true
			break
		}
	}
	if len(l.ended) == 0 {
		return Share{}, errNothing
	}
	return sh, nil
}

// due yields each block that the op is about to free.
func (l *EndCooldowns) due(s *Worker) func(yield func(netip.Prefix) bool) {
	now := s.Engine.Hooks.Now().Add(-s.grace()).UnixMilli()
	return func(yield func(netip.Prefix) bool) {
		seen := map[netip.Prefix]bool{}
		for _, p := range s.Room.Pools {
			for d := range p.Cools.All() {
				if l.Of == "" && !l.Within.IsValid() && d.Until > now {
					break
				}
				if !l.ends(s, d.Prefix) || seen[d.Prefix] {
					continue
				}
				if seen[d.Prefix] = true; !yield(d.Prefix) {
					return
				}
			}
		}
	}
}

func (l *EndCooldowns) ends(s *Worker, prefix netip.Prefix) bool {
	switch {
	case l.Of != "":
		return s.Cooling.Blocks[prefix].Owner.Value().Pool == l.Of
	case l.Within.IsValid():
		return l.Within.Overlaps(prefix)
	}
	return true
}

// Won removes the blocks from memory.
func (l *EndCooldowns) Won(s *Worker, revision int64, _ store.Results) error {
	for _, prefix := range l.ended {
		s.Removed(prefix, revision)
	}
	return nil
}

// Lost plans the op again.
func (l *EndCooldowns) Lost(*Worker, Loss) error { return ErrAgain }
