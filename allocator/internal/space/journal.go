package space

import (
	"sync"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// journalled is how many blocks a Journal keeps. About half a kilobyte each is in memory.
const journalled = 1 << 15

// Journal has the blocks that have changed since they were last taken, as the watch has seen them.
// It may lack some: it begins with the first call of Take, it drops all when there are too many,
// and what the watch has not brought is not in it. The zero value is empty. It is safe for
// concurrent use.
type Journal struct {
	mu      sync.Mutex
	records map[Position]store.Record // without holdings for a block that is gone; nil before the first Take
}

// Put notes what has become of the block at a place: its record, or one without holdings if it is gone.
func (j *Journal) Put(at Position, r store.Record) {
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

// Take returns what has changed, and forgets it.
func (j *Journal) Take() map[Position]store.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := j.records
	j.records = map[Position]store.Record{}
	return taken
}
