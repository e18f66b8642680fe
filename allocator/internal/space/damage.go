package space

import (
	"maps"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// A value that cannot be read stops the space that it belongs to, and nothing else: no
// call of that space is answered but with the name of the key, until the key is readable
// again or gone. A rolling upgrade that writes newer values is then no outage of the
// replicas that are older. Of a pool that is not known, only the key of its record is:
// until that can be read no root pool is registered anywhere, as it might overlap, but for
// those that a lost ledger had before.

// Damage is the keys that cannot be read, and why. The zero value is empty.
type Damage map[string]error

// note notes whether a key can be read. It reports whether it could not before.
func (d Damage) note(e store.Entry) (was bool) {
	_, was = d[e.Text]
	delete(d, e.Text)
	if e.Put && e.Damage != nil {
		d[e.Text] = e.Damage
	}
	return was
}

// Err is about the first key; nil if there is none.
func (d Damage) Err() error {
	if len(d) == 0 {
		return nil
	}
	return d[slices.Min(slices.Collect(maps.Keys(d)))]
}
