package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keepEvery is the pause between two searches for tenures to delete.
const keepEvery = 10 * time.Minute

// keepHistory prunes the history from time to time, until the engine is closed.
func (eng *Engine) keepHistory() {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := eng.PruneHistory(eng.Ctx); err != nil && eng.Ctx.Err() == nil {
				eng.logger.Warn("cannot prune the history yet", "error", err)
			}
		case <-eng.Health.Failed:
			return
		case <-eng.Ctx.Done():
			return
		}
	}
}

// PruneHistory deletes the tenures that are too old. If the rest are too many, it deletes the oldest of them. It reads
// in pages, deletes no more in a transaction than etcd takes, and gives way to the transactions of the spaces. In
// memory it has a count for each minute. A key that cannot be read stays: the command verify names it.
func (eng *Engine) PruneHistory(ctx context.Context) error {
	p := &prune{Engine: eng, before: eng.Hooks.Now().Add(-eng.history.Keep)}
	if err := p.pass(ctx); err != nil {
		return err
	}
	if most := eng.history.Max; most > 0 && p.kept > most {
		p.narrow(most)
		if err := p.pass(ctx); err != nil {
			return err
		}
	}
	eng.Metrics.history.Set(float64(p.kept))
	return nil
}

// prune is one PruneHistory: one pass over the whole history, or two.
type prune struct {
	*Engine
	before time.Time // tenures that ended up to this time are deleted
	extra  int       // of the tenures in the minute that follows, how many are deleted, too
	kept   int
	ended  map[int64]int // how many of the kept tenures ended in each minute
	batch  []clientv3.Op
	gone   int // how many tenures the batch deletes
}

// pass deletes tenures, and counts the others.
func (p *prune) pass(ctx context.Context) error {
	p.kept, p.ended = 0, map[int64]int{}
	for kv, err := range p.store.HistoryKeys(ctx) {
		if err != nil {
			return err
		}
		tenures, err := p.Keys.DecodeTenures(kv)
		if err != nil {
			p.kept++
			continue
		}
		if until := last(tenures); !p.goes(until, len(tenures)) {
			p.kept += len(tenures)
			p.ended[until.Unix()/60] += len(tenures)
			continue
		}
		p.batch = append(p.batch, store.Remove(string(kv.Key)))
		p.gone += len(tenures)
		if len(p.batch) < int(p.Limit.Load()) {
			continue
		}
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

// last returns when the last tenure of a key ended.
func last(tenures []ledger.Tenure) (until time.Time) {
	for _, t := range tenures {
		if t.Until.After(until) {
			until = t.Until
		}
	}
	return until
}

// goes reports whether to delete a key with n tenures. The last of these tenures ended at the given time.
func (p *prune) goes(until time.Time, n int) bool {
	if !until.After(p.before) {
		return true
	}
	if p.extra <= 0 || until.After(p.before.Add(time.Minute)) {
		return false
	}
	p.extra -= n
	return true
}

// narrow moves the field before, so that at most the given number of tenures is kept. A key is deleted as a whole, so a
// few less may be kept. Keys that cannot be read count, and stay.
func (p *prune) narrow(most int) {
	p.extra = p.kept - most
	for _, minute := range slices.Sorted(maps.Keys(p.ended)) {
		p.before = time.Unix(60*minute, 0).Add(-1)
		if p.ended[minute] >= p.extra {
			return
		}
		p.extra -= p.ended[minute]
	}
}

// flush deletes the keys of the batch, in smaller transactions if etcd takes fewer operations.
func (p *prune) flush(ctx context.Context) error {
	for len(p.batch) > 0 {
		n := min(len(p.batch), int(p.Limit.Load()))
		_, err := p.store.Write(ctx, nil, p.batch[:n], nil)
		switch {
		case store.TooLarge(err) && n > 1:
			p.Limit.Store(int64(n / 2))
		case err != nil:
			return err
		default:
			p.batch = slices.Delete(p.batch, 0, n)
		}
	}
	p.Metrics.forgotten.Add(float64(p.gone))
	p.gone = 0
	return nil
}
