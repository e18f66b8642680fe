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
	// endGrace is how much later an Allocator that does not lead ends a cooldown. By then the
	// leader has, as a rule, so that two do not write the same.
	endGrace = 2 * time.Second
	// endLook is how long a timer runs at most. A timer follows the monotonic clock, and a
	// cooldown ends by the wall clock, which may be set.
	endLook = time.Minute
	// endPause is the time between two transactions that end cooldowns: where blocks are freed all
	// the time, one transaction ends those of many.
	endPause = 100 * time.Millisecond
	// endRetry is the pause after a fault.
	endRetry = time.Second
)

// alarm is the one timer of a space, for the cooldown that ends next. The space's lock guards it.
type alarm struct {
	at      time.Time // when it rings; zero: it is not set
	stop    func() bool
	running bool      // a goroutine ends cooldowns
	after   time.Time // it does not ring before
}

// set sets the timer for the next end; zero: there is none.
func (a *alarm) set(next time.Time, hooks *Hooks, ring func()) {
	if !next.IsZero() && next.Before(a.after) {
		next = a.after
	}
	if next.Equal(a.at) {
		return
	}
	if !a.at.IsZero() {
		a.stop()
	}
	if a.at = next; next.IsZero() {
		return
	}
	a.stop = hooks.After(min(max(0, next.Sub(hooks.Now())), endLook), ring)
}

// take takes the alarm for a goroutine that ends cooldowns, and reports whether none has it. The timer
// that is set need not be the one that rang: that may have been replaced as it did.
func (a *alarm) take() (ok bool) {
	if !a.at.IsZero() {
		a.stop()
	}
	ok = !a.running
	a.running, a.at = true, time.Time{}
	return ok
}

// updateAlarm sets the timer of the space for the next cooldown that this Allocator ends.
func (s *Worker) updateAlarm() {
	if s.alarm.running || len(s.Cooling.Blocks) == 0 && s.alarm.at.IsZero() {
		return
	}
	var next time.Time
	if !s.Gone {
		next = s.Room.Pools.NextRelease()
	}
	if !next.IsZero() {
		next = next.Add(s.Engine.grace())
	}
	s.alarm.set(next, &s.Engine.Hooks, func() { s.Engine.Spawn(s.endDue) })
}

// grace is how long after its time a cooldown is ended.
func (eng *Engine) grace() time.Duration {
	if eng.leads.Load() {
		return 0
	}
	return endGrace
}

// endDue ends the cooldowns of the space whose time is over.
func (s *Worker) endDue() {
	s.Lock()
	ok := s.alarm.take()
	s.Unlock()
	if !ok {
		return
	}
	_, err := EndAll(EndCooldowns{}, func(o Op) error { return s.Do(s.Engine.Ctx, o) })
	s.Lock()
	defer s.Unlock()
	s.alarm.running, s.alarm.after = false, s.Engine.Hooks.Now().Add(endPause)
	if err != nil {
		s.alarm.after = s.Engine.Hooks.Now().Add(endRetry)
	}
}

// EndAll frees the blocks that the wanted op finds, as many as one transaction carries at a time, until
// none is left. It reports whether there were any.
func EndAll(wanted EndCooldowns, do func(Op) error) (ended bool, err error) {
	for {
		o := wanted // each has an outcome of its own
		err := do(&o)
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

// Cluster is empty: the op has a lane of its own.
func (l *EndCooldowns) Cluster() ledger.ClusterName { return "" }

// Claim is none: the op has a transaction of its own.
func (l *EndCooldowns) Claim() (ledger.ClaimID, bool) { return "", false }

// Plan takes as many blocks as one transaction carries. It compares each of them: no block that cools can change
// without the head, but memory may be wrong.
func (l *EndCooldowns) Plan(s *Worker) (Share, error) {
	l.ended, l.full = nil, false
	if p := s.Pool(l.Of); l.Of != "" && (p == nil || p.State != ledger.PoolDraining) {
		return Share{}, errNothing // it is another pool, of the same ID
	}
	limit, bytes := max(1, int(s.Engine.Limit.Load())-8), 0
	var sh Share
	for prefix := range l.due(s) {
		cooled := s.Cooling.Blocks[prefix]
		block, claim := s.Keys.Block(prefix), s.Keys.Claim(cooled.Claim)
		sh.Ifs = append(sh.Ifs, store.At(block, cooled.At))
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
	now := s.Engine.Hooks.Now().Add(-s.Engine.grace()).UnixMilli()
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

// Lost plans the op again. If one of the blocks is not as in memory, that is read again before.
func (l *EndCooldowns) Lost(s *Worker, why Loss) error {
	if why.Kind == Refuted {
		return s.Distrust(l.ended[0])
	}
	return ErrAgain
}
