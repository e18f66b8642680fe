package engine

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// beginning returns the changes of a transaction that begins the space of a pool.
func beginning(id ledger.PoolID, revision int64) []*store.Entry {
	in := ledger.SpaceID(id)
	p := ledger.Pool{ID: id, Cluster: "platform", Name: string(id), Space: in, CIDR: netip.MustParsePrefix("10.0.0.0/24"), State: ledger.PoolOpen}
	return []*store.Entry{
		{Key: store.Key{Kind: store.PoolKey, Pool: id, Space: in}, Put: true, Revision: revision, Registered: &p},
		{Key: store.Key{Kind: store.HeadKey, Space: in}, Put: true, Revision: revision, Head: store.Head{Revision: revision, Created: revision, Version: 1}},
	}
}

// memoryOf returns an engine without a ledger. opens is called before it makes a space, and unlocked after a space was unlocked.
func memoryOf(opens, unlocked func(*Engine, ledger.SpaceID)) *Engine {
	eng := &Engine{Table: space.NewTable(), logger: slog.Default(), Health: health{Failed: make(chan struct{}), logger: slog.Default()}}
	eng.Table.Logger = eng.logger
	eng.Watched = &watched{health: &eng.Health, grown: make(chan struct{})}
	eng.Spaces = spaces{workers: map[ledger.SpaceID]*Worker{}, open: func(id ledger.SpaceID) *Worker {
		opens(eng, id)
		w := &Worker{Space: space.NewSpace(eng.Table, id), Engine: eng}
		w.Unlocking, w.Unlocked = func() {}, func(space.News) { unlocked(eng, id) }
		return w
	}}
	return eng
}

func nothing(*Engine, ledger.SpaceID) {}

// forgotten fails the test if memory has the pool.
func (eng *Engine) forgotten(t *testing.T, id ledger.PoolID) {
	t.Helper()
	_, pool := eng.Table.Find(id)
	if _, worker := eng.Spaces.find(ledger.SpaceID(id)); pool || worker {
		t.Errorf("memory has the pool: %t, its space: %t; want neither", pool, worker)
	}
}

// A pool that was registered here is retired elsewhere, which the watch brings between the two looks of the late answer: at how far the
// watch is, and into the spaces.
func TestApply_ALateAnswerBetweenTwoLooks(t *testing.T) {
	eng := memoryOf(func(eng *Engine, _ ledger.SpaceID) { eng.Watched.advance(9) }, nothing)
	eng.apply(7, beginning("p", 7))
	eng.forgotten(t, "p")
}

// The same, if it is a reading of the ledger that lacks the pool, as the watch had a gap.
func TestApply_ALateAnswerDuringAReading(t *testing.T) {
	reads := false
	eng := memoryOf(nothing, func(eng *Engine, id ledger.SpaceID) {
		if id == "former" && reads { // which the reading has closed
			reads = false
			eng.apply(7, beginning("p", 7))
		}
	})
	eng.apply(5, beginning("former", 5))
	reads = true
	follower{eng}.install(&image{revision: 9, damage: space.Damage{}})
	eng.forgotten(t, "p")
}
