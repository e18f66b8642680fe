package engine

import (
	"errors"
	"iter"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

const (
	// endPause is the least time between two transactions of a space that end cooldowns. If blocks are freed all the time,
	// one transaction ends many cooldowns.
	endPause = 100 * time.Millisecond
	// endRetry is endPause after a fault.
	endRetry = time.Second
	// endLook is how long an alarm's timer runs at most. A timer follows the monotonic clock. A cooldown ends by the wall
	// clock, which an operator may set.
	endLook = time.Minute
)

// alarm is the one timer of a space, for the cooldown that ends next. The space's lock guards it.
type alarm struct {
	at      time.Time // when it rings; zero: it is not set
	stop    func() bool
	running bool      // a goroutine ends cooldowns
	after   time.Time // it does not ring before
}

// set sets the timer for the time at which the next cooldown ends; zero: none cools.
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

// take takes the alarm for a goroutine that ends cooldowns. It reports false if another goroutine has it. The timer
// that rang may have been replaced at the same moment. Then take stops the later timer.
func (a *alarm) take() (ok bool) {
	if !a.at.IsZero() {
		a.stop()
	}
	ok = !a.running
	a.running, a.at = true, time.Time{}
	return ok
}

// updateAlarm sets the timer of the space for the cooldown that ends next.
func (s *Space) updateAlarm() {
	if s.alarm.running || len(s.Cooling.Blocks) == 0 && s.alarm.at.IsZero() {
		return
	}
	var next time.Time
	if !s.Gone {
		next = s.Room.Pools.NextRelease()
	}
	s.alarm.set(next, &s.Engine.Hooks, func() { s.Engine.Spawn(s.endDue) })
}

// endDue frees the blocks of the space that have cooled long enough.
func (s *Space) endDue() {
	s.Lock()
	ok := s.alarm.take()
	s.Unlock()
	if !ok {
		return
	}
	_, err := s.Engine.EndAll(EndCooldowns{}, func(o Op) error {
		_, err := s.Do(s.Engine.Ctx, o)
		return err
	})
	s.Lock()
	defer s.Unlock()
	s.alarm.running, s.alarm.after = false, s.Engine.Hooks.Now().Add(endPause)
	if err != nil {
		s.alarm.after = s.Engine.Hooks.Now().Add(endRetry)
	}
}

// EndAll frees the wanted cooling blocks, as many at a time as one transaction carries, until none is left. The
// function do submits each operation. ended reports whether there were any blocks.
func (eng *Engine) EndAll(wanted EndCooldowns, do func(Op) error) (ended bool, err error) {
	for {
		full := false // there may be more
		err := do(Op{Alone: true, Plan: func(v space.View) (p Plan, err error) {
			p, full, err = wanted.plan(v, eng.Hooks.Now())
			return p, err
		}})
		switch {
		case errors.Is(err, errNothing):
			return ended, nil
		case errors.Is(err, ErrOvertaken): // the operation was too large
			continue
		case err != nil:
			return ended, err
		case !full:
			return true, nil
		}
		ended = true
	}
}

// errNothing: no block is to be freed.
var errNothing = errors.New("no cooldown is over")

// EndCooldowns frees cooling blocks: those whose time is over, or all of a pool or
// a prefix.
type EndCooldowns struct {
	Of     ledger.PoolID // all blocks of this pool
	Within netip.Prefix  // all blocks that overlap this prefix
}

// plan frees as many of the blocks as one transaction carries. full reports that there may be more. The transaction
// compares each block: as long as the head is the same, no cooling block has changed, but memory may be wrong.
func (l EndCooldowns) plan(v space.View, now time.Time) (p Plan, full bool, err error) {
	if pool := v.Pool(l.Of); l.Of != "" && (pool == nil || pool.State != ledger.PoolDraining) {
		return Plan{}, false, errNothing // the pool is gone, or another one has its ID
	}
	most, bytes := max(1, (v.Limit-leastOps)/2), 0
	for prefix, c := range l.due(v, now) {
		block, claim := v.Keys.RemoveBlock(prefix).At(c.At, ErrMistaken), v.Keys.RemoveClaim(c.Claim)
		p.Changes = append(p.Changes, block, claim)
		bytes += len(block.Key) + len(claim.Key)
		if len(p.Changes) >= 2*most || bytes > MaxGroupBytes/2 {
			return p, true, nil
		}
	}
	if len(p.Changes) == 0 {
		return Plan{}, false, errNothing
	}
	return p, false, nil
}

// due yields each cooling block that is to be freed.
func (l EndCooldowns) due(v space.View, now time.Time) iter.Seq2[netip.Prefix, *space.Cooled] {
	return func(yield func(netip.Prefix, *space.Cooled) bool) {
		seen := map[netip.Prefix]bool{}
		for _, p := range v.Pools() {
			for d := range p.Cools.All() {
				if l.Of == "" && !l.Within.IsValid() && d.Until > now.UnixMilli() {
					break
				}
				c := v.Cooled(d.Prefix)
				if seen[d.Prefix] || !l.ends(d.Prefix, c) {
					continue
				}
				if seen[d.Prefix] = true; !yield(d.Prefix, c) {
					return
				}
			}
		}
	}
}

func (l EndCooldowns) ends(prefix netip.Prefix, c *space.Cooled) bool {
	switch {
	case l.Of != "":
		return c.Owner.Value().Pool == l.Of
	case l.Within.IsValid():
		return l.Within.Overlaps(prefix)
	}
	return true
}
