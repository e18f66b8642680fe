package store

import (
	"context"
	"strings"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Reserved calls visit with the tenures of all reservations, in the order of their workspaces, each as it is when it
// is read. It returns the revision of the list. For a key that cannot be read, visit gets an error for
// which Unreadable holds. If visit returns false, Reserved ends. It reads the keys of pools, of reservations and of
// their blocks. ErrExpired: reading took longer than etcd keeps its revisions.
func (r Reader) Reserved(ctx context.Context, visit func(ledger.Tenure, error) bool) (revision int64, err error) {
	s := NewStore(r.Client, r.Prefix)
	pages, all := s.NewPager(0), spanOf(s.Keys.Claim(ledger.ReservationPrefix))
	names, err := s.call(ctx, pages)
	if err != nil {
		return pages.revision, err
	}
	for kv, err := range pages.Keys(ctx, all.from, all.end) {
		if err != nil {
			return pages.revision, err
		}
		id := ledger.ClaimID(strings.TrimPrefix(string(kv.Key), s.Keys.Claim("")))
		record, ok, err := s.RecordOf(ctx, id)
		if err != nil && !ledger.Unreadable(err) {
			return pages.revision, err
		}
		var t ledger.Tenure
		if ok {
			if record.Held.State != ledger.Reserved {
				continue // it cools
			}
			t = names.name(record.Block().Tenure())
		}
		if (ok || err != nil) && !visit(t, err) {
			break
		}
	}
	return pages.revision, nil
}
