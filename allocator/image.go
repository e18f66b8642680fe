package allocator

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Snapshot reads what memory needs of the ledger, at one revision, which it returns: pools,
// then fences and reservations, then heads and blocks.
func (s *Store) Snapshot(ctx context.Context, visit func(Entry)) (revision int64, err error) {
	pages := s.newPager(0)
	var pools []Pool
	for _, part := range []string{s.Keys.pools(), s.Keys.workspaces(), s.Keys.quotas(), s.Keys.reservations(), s.Keys.spaces()} {
		if part == s.Keys.spaces() {
			pages.windows = windows(s.Keys, pools, false)
		}
		for kv, err := range pages.keys(ctx, part, clientv3.GetPrefixRangeEnd(part)) {
			if err != nil {
				return 0, err
			}
			e := s.Keys.entry(kv)
			if e.kind == poolKey && e.Damage == nil {
				pools = append(pools, e.Registered)
			}
			visit(e)
		}
	}
	return pages.revision, nil
}
