package sweep

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// few is how many orphans a pass takes up in a pool of any size.
const few = 10

// settle takes up the orphans of a pool, or puts the brake on, if it was not on already.
func (s *Sweeper) settle(ctx context.Context, id ledger.PoolID, found *census, already bool) {
	pool, ok := s.Ledger.Pools.Get(id)
	if !ok {
		return // retired meanwhile
	}
	if len(found.orphans) == 0 {
		return
	}
	labels := s.labels(pool)
	orphans.WithLabelValues(labels...).Add(float64(len(found.orphans)))
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

// labels name a pool in the metrics of this pass, as long as there is room for names.
func (s *Sweeper) labels(pool ledger.Pool) []string {
	if s.named == maxNamed {
		return []string{"", ""}
	}
	s.named++
	return []string{string(pool.Cluster), pool.Name}
}

// limit is how many orphans of a pool with so many blocks a pass takes up.
func (s *Sweeper) limit(blocks int) int {
	return min(s.MaxFrees, max(few, int(s.MaxShare*float64(blocks))))
}

// warn says that the orphans of a pool are left alone, and what to do.
func (s *Sweeper) warn(ctx context.Context, pool ledger.Pool, count, blocks int) {
	message := fmt.Sprintf("%d of %d blocks seem to have lost their claims, more than a sweep frees by itself; "+
		"if that is right, annotate the pool with %s and a time until which it may; "+
		"where blocks of other workspaces are among them, that counts on pools of the platform alone", count, blocks, AnnotationAllow)
	log.FromContext(ctx).Info("sweep braked", "cluster", pool.Cluster, "pool", pool.Name, "orphans", count, "blocks", blocks)
	s.World.Warn(ctx, pool, message)
}
