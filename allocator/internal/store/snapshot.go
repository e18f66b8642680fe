package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Snapshot reads the keys that memory needs: pools, then heads and blocks, all at one revision, which it returns. visit
// may use an entry only during the call.
func (s *Store) Snapshot(ctx context.Context, visit func(*Entry)) (revision int64, err error) {
	pages := s.NewPager(0)
	pools := newRoll(s.Keys)
	for kv, err := range pages.Keys(ctx, s.Keys.pools(), clientv3.GetPrefixRangeEnd(s.Keys.pools())) {
		if err != nil {
			return 0, err
		}
		e := pools.entry(kv)
		visit(&e)
	}
	pages.Windows = Windows(s.Keys, pools.all(), false)
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
