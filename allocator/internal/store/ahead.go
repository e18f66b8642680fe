package store

import (
	"context"
	"iter"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// readAhead is how many pages are read ahead while the caller uses one. They are few, because etcd may be in the same
// process, and each page is soon garbage.
const readAhead = 4

// decoded is a page, once it has been read and decoded.
type decoded struct {
	entries []Entry
	err     error
}

// ahead yields the keys below a prefix page by page, in order, like the pager. While the caller uses a page, the next
// pages are read and decoded, on other processors if there are any. The caller may use a page only until it asks for
// the next one, because the entries are used again. When ahead has returned, nothing is read any more, and the caller
// can use the pager again.
func (s *Store) ahead(ctx context.Context, pages *Pager, prefix string) iter.Seq2[[]Entry, error] {
	return func(yield func([]Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		read := make(chan chan decoded, readAhead)
		used := make(spares, readAhead)
		work.Go(func() {
			defer close(read)
			for page, err := range pages.pages(ctx, prefix, clientv3.GetPrefixRangeEnd(prefix)) {
				next := make(chan decoded, 1)
				select {
				case read <- next:
				case <-ctx.Done():
					return
				}
				work.Go(func() { next <- decoded{s.decodeAll(used.take(), page), err} })
			}
		})
		for next := range read {
			page := <-next
			if !yield(page.entries, page.err) || page.err != nil {
				return
			}
			used.keep(page.entries)
		}
		if err := ctx.Err(); err != nil { // what was read may not be all
			yield(nil, explained(s.Client, err))
		}
	}
}

// spares has the entries of used pages, whose memory the next pages use again.
type spares chan []Entry

func (s spares) take() []Entry {
	select {
	case entries := <-s:
		return entries
	default:
		return nil
	}
}

func (s spares) keep(entries []Entry) {
	select {
	case s <- entries:
	default:
	}
}

// decodeAll decodes a page into the memory of former entries.
func (s *Store) decodeAll(former []Entry, page []*mvccpb.KeyValue) []Entry {
	entries := slices.Grow(former[:0], len(page))
	for _, kv := range page {
		entries = append(entries, EntryOf(s.Keys, kv))
	}
	return entries
}
