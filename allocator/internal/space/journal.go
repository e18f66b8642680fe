package space

import (
	"sync"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// journalled is how many blocks a Journal keeps at most. Each takes about half a kilobyte of memory.
const journalled = 1 << 15

// Journal has the blocks that have changed since the last Take. Some may be missing: the Journal begins with the first
// Take, and drops all when there are too many. The zero value is empty. It is safe for concurrent use.
type Journal struct {
	mu      sync.Mutex
	records map[ledger.Position]store.Record // no holder: the block is gone; nil before the first Take
}

// Put notes the new record of the block at a place, without a holder if the block is gone.
func (j *Journal) Put(at ledger.Position, r store.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.records == nil {
		return
	}
	if len(j.records) >= journalled {
		clear(j.records)
	}
	j.records[at] = r
}

// Take returns the blocks that have changed, and empties the journal.
func (j *Journal) Take() map[ledger.Position]store.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := j.records
	j.records = map[ledger.Position]store.Record{}
	return taken
}
