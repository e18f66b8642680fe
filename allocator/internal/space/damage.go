package space

import (
	"maps"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
)

// A value that cannot be read stops the space that it belongs to, and nothing else. All calls of that space fail with
// the name of the key, until the key can be read or is gone, and the ledger was opened again. So replicas of an older
// version survive a rolling upgrade that writes newer values.
//
// If the record of a pool cannot be read, its CIDR is unknown, and any root pool might overlap it.
// Until the record can be read, no root pool is registered, except those that a lost ledger had before.

// Damage has the keys that cannot be read, with the error of each. The zero value is empty.
type Damage map[string]error

// note notes a key that cannot be read.
func (d Damage) note(e *store.Entry) { d[e.Text] = e.Damage }

// Err returns the error of the first key; nil if there is none.
func (d Damage) Err() error {
	if len(d) == 0 {
		return nil
	}
	return d[slices.Min(slices.Collect(maps.Keys(d)))]
}
