package store

import (
	"context"
	"iter"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// readAhead is how many pages are read, or have been read, while one is used: few, as etcd may be
// in the same process, and each of them is garbage soon.
const readAhead = 4

// decoded is a page, once it has been read and decoded.
type decoded struct {
	entries []Entry
	err     error
}

// ahead yields the keys below a prefix page by page, in order, like the pager. While the caller uses
// one page the next are read and decoded, on other processors if there are any. When it returns
// nothing is read any more, and the pager can be used again.
func (s *Store) ahead(ctx context.Context, pages *Pager, prefix string) iter.Seq2[[]Entry, error] {
	return func(yield func([]Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		read := make(chan chan decoded, readAhead)
		work.Go(func() {
			defer close(read)
			for page, err := range pages.pages(ctx, prefix, clientv3.GetPrefixRangeEnd(prefix)) {
				next := make(chan decoded, 1)
				select {
				case read <- next:
				case <-ctx.Done():
					return
				}
				work.Go(func() { next <- decoded{s.decodeAll(page), err} })
			}
		})
		for next := range read {
			page := <-next
			if !yield(page.entries, page.err) || page.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil { // what was read may not be all
			yield(nil, explained(s.Client, err))
		}
	}
}

// decodeAll decodes a page.
func (s *Store) decodeAll(page []*mvccpb.KeyValue) []Entry {
	entries := make([]Entry, len(page))
	for i, kv := range page {
		entries[i] = EntryOf(s.Keys, kv)
	}
	return entries
}
