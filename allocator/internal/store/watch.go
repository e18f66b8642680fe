package store

import (
	"context"
	"errors"
	"iter"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Batch is the changes of one revision. One without entries shows that the watch is alive, and
// which revision it has reached; 0: that is not known.
type Batch struct {
	Revision int64
	Entries  []Entry
}

// Watch yields the changes after a revision, in order, except those to claims and to the history: what
// memory has of a claim is in its block, which changes with it. An error is the last that it yields.
// Compacted(err): etcd has compacted the changes.
func (s *Store) Watch(ctx context.Context, after int64) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		from, end := s.Keys.watched()
		watch := s.Client.Watch(ctx, from, clientv3.WithRange(end), clientv3.WithRev(after+1), clientv3.WithCreatedNotify())
		for resp := range watch {
			if err := resp.Err(); err != nil {
				yield(Batch{}, err)
				return
			}
			if !s.batches(resp, yield) {
				return
			}
		}
		yield(Batch{}, errors.New("the watch was closed"))
	}
}

// batches yields a response, one revision at a time. It reports whether to go on.
func (s *Store) batches(resp clientv3.WatchResponse, yield func(Batch, error) bool) bool {
	if len(resp.Events) == 0 {
		alive := Batch{}
		if resp.IsProgressNotify() {
			alive.Revision = resp.Header.Revision
		}
		return yield(alive, nil)
	}
	for rest := resp.Events; len(rest) > 0; {
		b := Batch{Revision: rest[0].Kv.ModRevision}
		n := slices.IndexFunc(rest, func(ev *clientv3.Event) bool { return ev.Kv.ModRevision != b.Revision })
		if n < 0 {
			n = len(rest)
		}
		b.Entries = make([]Entry, n)
		for i, ev := range rest[:n] {
			b.Entries[i] = s.event(ev)
		}
		if !yield(b, nil) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

func (s *Store) event(ev *clientv3.Event) Entry {
	if ev.Type == clientv3.EventTypePut {
		return EntryOf(s.Keys, ev.Kv)
	}
	return deleted(s.Keys, ev.Kv)
}
