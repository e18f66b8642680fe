package sweep

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// round is one look at every block. In a large ledger a round is made in parts, one at each interval. The sweep decides
// about orphans at the end of the round, because the brake needs to know all of them.
type round struct {
	sightings map[ledger.ClaimID]int64
	pools     map[ledger.PoolID]*census

	after  ledger.Position // the block that was looked at last
	blocks int             // how many blocks were looked at
	parts  int             // how many parts were made
	took   time.Duration   // the work of all parts, without the pauses; each read from etcd counts for stall at most
}

func newRound() *round {
	return &round{
		sightings: map[ledger.ClaimID]int64{}, pools: map[ledger.PoolID]*census{},
	}
}

// census counts the blocks of one pool.
type census struct {
	blocks  int
	orphans []ledger.Holder // seen twice, and nobody saw their deletion
	// deleted is how many orphans were seen twice whose deletion was seen, too. The caches are right about these, and
	// their releases are retried.
	deleted int
}

// stall is how much of the wait for a read from etcd counts as work. A page takes a few milliseconds. A longer wait
// means that etcd is away or slow. If all of the wait counted, the sweep would look less often, and would leave blocks
// behind for minutes after etcd is back.
const stall = 100 * time.Millisecond

// part makes the next part of the round, and ends the round after the last part. If part fails, the next call continues
// where it stopped.
func (s *Sweeper) part(ctx context.Context) error {
	r, asked := s.round, s.Clock.Now()
	seen, most := 0, s.blocks/s.parts+1
	waited := func() time.Time {
		now := s.Clock.Now()
		r.took += min(now.Sub(asked), stall)
		return now
	}
	all, err := s.each(ctx, r.after, func(b ledger.Block) bool {
		begun := waited()
		defer func() { asked = s.Clock.Now(); r.took += asked.Sub(begun) }()
		at := ledger.Position{Space: b.Space, Prefix: b.Prefix}
		if seen >= most && r.parts+1 < s.parts {
			return false
		}
		seen++
		r.after = at
		s.inspect(ctx, b, r)
		return true
	})
	waited()
	if err != nil {
		return err
	}
	if r.parts++; all {
		s.inspectRanges(ctx, r)
		s.end(ctx, r)
	}
	return nil
}

// inspectRanges inspects each range as a block of its parent, which the range's claim holds. So the brake counts ranges
// together with the blocks of the parent.
func (s *Sweeper) inspectRanges(ctx context.Context, r *round) {
	for p := range s.Ledger.Pools.All() {
		if b, held := rangeOf(p); held {
			s.inspect(ctx, b, r)
		}
	}
}

// inspect looks at one block.
func (s *Sweeper) inspect(ctx context.Context, b ledger.Block, r *round) {
	r.blocks++
	pool := r.pools[b.Pool]
	if pool == nil {
		pool = &census{}
		r.pools[b.Pool] = pool
	}
	pool.blocks++
	if s.young(b) || !s.judge(ctx, b) {
		return
	}
	if s.sightings[b.Holder.Claim] == b.Revision {
		if s.Releases.SawDeleted(b.Holder.Claim) {
			pool.deleted++
		} else {
			pool.orphans = append(pool.orphans, b.Holder)
		}
	}
	r.sees(b)
}

// sees notes an orphan. It clones the holder's ID, which is a substring of a larger text. Otherwise the sightings would
// keep the whole ledger in memory at the start, when no workspace is engaged yet.
func (r *round) sees(b ledger.Block) {
	r.sightings[ledger.ClaimID(strings.Clone(string(b.Holder.Claim)))] = b.Revision
}

// end decides about what a round has found, and begins the next one.
func (s *Sweeper) end(ctx context.Context, r *round) {
	orphans.Reset()
	braked.Reset()
	s.named = 0
	before := s.braked
	s.braked = map[ledger.PoolID]bool{}
	for id, pool := range r.pools {
		s.settle(ctx, id, pool, before[id])
	}
	s.lookAtPools(ctx)
	lastPass.SetToCurrentTime()
	durations.Observe(r.took.Seconds())
	s.sightings, s.blocks, s.parts = r.sightings, r.blocks, s.partsOf(r.took)
	s.round = newRound()
}

// partsOf returns the number of parts of a round whose work takes this long. With so many parts the round uses a
// hundredth of a processor, or lasts as long as longest allows.
func (s *Sweeper) partsOf(took time.Duration) int {
	needed, most := (share*took+s.Interval-1)/s.Interval, longest/s.Interval
	return int(max(1, min(needed, most)))
}

// few is the number of orphans that MaxShare lets a round suspect even in a small pool. In a large pool it allows more.
const few = 10

// settle suspects the orphans of a pool, or puts the brake on if there are too many. If the brake was on already,
// settle does not warn again.
func (s *Sweeper) settle(ctx context.Context, id ledger.PoolID, found *census, already bool) {
	pool, ok := s.Ledger.Pools.Get(id)
	if !ok {
		return // retired meanwhile
	}
	all := len(found.orphans) + found.deleted
	if all == 0 {
		return
	}
	labels := s.labels(pool)
	orphans.WithLabelValues(labels...).Add(float64(all))
	if len(found.orphans) > s.limit(found.blocks) && !s.World.Allowed(ctx, pool, found.orphans, s.Clock.Now()) {
		s.braked[id] = true
		braked.WithLabelValues(labels...).Set(1)
		if !already {
			s.warn(ctx, pool, len(found.orphans), found.blocks)
		}
		return
	}
	for _, h := range found.orphans {
		s.Releases.Suspect(h)
	}
}

// labels returns the labels of a pool in the metrics of this round. They are empty once the metrics of this round name
// maxNamed pools.
func (s *Sweeper) labels(pool ledger.Pool) []string {
	if s.named == maxNamed {
		return []string{"", ""}
	}
	s.named++
	return []string{string(pool.Cluster), pool.Name}
}

// limit returns how many orphans a round may suspect in a pool with this many blocks.
func (s *Sweeper) limit(blocks int) int {
	return min(s.MaxFrees, max(few, int(s.MaxShare*float64(blocks))))
}

// warn says that the orphans of a pool are left alone, and what to do.
func (s *Sweeper) warn(ctx context.Context, pool ledger.Pool, count, blocks int) {
	message := fmt.Sprintf("%d of %d blocks seem to have lost their claims, more than a sweep frees by itself; "+
		"if that is right, annotate the pool with %s and a time until which it may; "+
		"where blocks of other workspaces are among them, that counts on pools of the platform alone",
		count, blocks, AnnotationAllow)
	log.FromContext(ctx).Info("sweep braked", "cluster", pool.Cluster, "pool", pool.Name,
		"orphans", count, "blocks", blocks)
	s.World.Warn(ctx, pool, message)
}

// glance looks at the blocks that have changed since the last glance, and at those that were too young then. Its cost
// does not depend on the size of the ledger. A glance may miss blocks, which the round finds. It does not decide about
// orphans, because it does not know how many there are. An orphan that it sees counts as seen by the current round, so
// that the next round may suspect it.
func (s *Sweeper) glance(ctx context.Context) {
	maps.Copy(s.recent, s.Ledger.Blocks.ChangedBlocks())
	for at, b := range s.recent {
		if b.Holder.Claim == "" || !s.young(b) {
			delete(s.recent, at)
		}
		s.glanceAt(ctx, b)
	}
}

func (s *Sweeper) glanceAt(ctx context.Context, b ledger.Block) {
	switch {
	case b.Holder.Claim == "" || b.State == ledger.Cooling || s.young(b): // it is free, or need not be looked at
	case s.judge(ctx, b):
		s.round.sees(b)
	}
}
