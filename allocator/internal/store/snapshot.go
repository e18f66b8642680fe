package store

import (
	"context"

	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Snapshot reads the keys that memory needs, at one revision, which it returns: pools, then heads and
// blocks. An entry is the caller's only while it is visited.
func (s *Store) Snapshot(ctx context.Context, visit func(*Entry)) (revision int64, err error) {
	pages := s.NewPager(0)
	var pools []ledger.Pool
	for kv, err := range pages.Keys(ctx, s.Keys.pools(), clientv3.GetPrefixRangeEnd(s.Keys.pools())) {
		if err != nil {
			return 0, err
		}
		e := EntryOf(s.Keys, kv)
		if e.Kind == PoolKey && e.Damage == nil {
			pools = append(pools, *e.Registered)
		}
		visit(&e)
	}
	pages.Windows = Windows(s.Keys, pools, false)
	for entries, err := range s.ahead(ctx, pages, s.Keys.Spaces()) {
		if err != nil {
			return 0, err
		}
		for i := range entries {
			visit(&entries[i])
		}
	}
	return pages.revision, nil
}
