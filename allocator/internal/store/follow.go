package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Follow yields the events of blocks from a revision on, in the order of revisions, each once, until ctx ends. With
// revision 0, Follow begins now. To resume, take the latest event whose Last is set, and begin at the revision after
// it: then no event is missing, and none comes twice.
//
// An error for which Unreadable holds names a key, and more events may follow. After any other error Follow ends.
// *ForgottenError: etcd has compacted the revision.
func (r Reader) Follow(ctx context.Context, from int64) iter.Seq2[ledger.Event, error] {
	return func(yield func(ledger.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s := NewStore(r.Client, r.Prefix)
		if from == 0 {
			_, now, err := s.Get(ctx, s.Keys.ledger())
			if err != nil {
				yield(ledger.Event{}, err)
				return
			}
			from = now + 1
		}
		pools, err := s.call(ctx, s.NewPager(0))
		if err != nil {
			yield(ledger.Event{}, err)
			return
		}
		f := follower{roll: pools, from: from}
		watch := s.Client.Watch(clientv3.WithRequireLeader(ctx), string(s.Keys)+"/",
			clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(from), clientv3.WithProgressNotify())
		for resp := range watch {
			if !f.tell(resp, yield) {
				return
			}
		}
		yield(ledger.Event{}, cmp.Or(ctx.Err(), errors.New("the watch was closed")))
	}
}

// follower makes events of the changes that a watch brings.
type follower struct {
	roll
	from int64 // the next revision
}

// tell yields the events of a response, one revision at a time. It reports whether to go on.
func (f *follower) tell(resp clientv3.WatchResponse, yield func(ledger.Event, error) bool) bool {
	if resp.CompactRevision > 0 {
		yield(ledger.Event{}, &ledger.ForgottenError{Revision: f.from, First: resp.CompactRevision + 1})
		return false
	}
	if err := resp.Err(); err != nil {
		yield(ledger.Event{}, err)
		return false
	}
	for rest := resp.Events; len(rest) > 0; {
		revision := rest[0].Kv.ModRevision
		n := slices.IndexFunc(rest, func(ev *clientv3.Event) bool { return ev.Kv.ModRevision != revision })
		if n < 0 {
			n = len(rest)
		}
		events, damaged, ok := f.revision(rest[:n])
		if !ok {
			yield(ledger.Event{}, &ledger.ForgottenError{Revision: revision, First: resp.Header.Revision + 1})
			return false
		}
		for _, err := range damaged {
			if !yield(ledger.Event{Revision: revision}, err) {
				return false
			}
		}
		for i, e := range events {
			e.Revision, e.Last = revision, i == len(events)-1
			if !yield(e, nil) {
				return false
			}
		}
		rest, f.from = rest[n:], revision+1
	}
	return true
}

// turn is the changes of one revision to the holders of blocks.
type turn struct {
	came, went []ledger.Block  // blocks with their new holders, and with their former holders
	ended      []ledger.Tenure // tenures that the revision has put into the history
	damaged    []error
}

// revision reads the changes of one revision. ok is false if etcd has compacted the values that the changes have
// replaced.
func (f *follower) revision(changes []*clientv3.Event) (events []ledger.Event, damaged []error, ok bool) {
	t := &turn{}
	for _, ev := range changes {
		tenures, recorded := f.recorded(t, ev)
		t.ended = append(t.ended, tenures...)
		if recorded {
			continue
		}
		n, err := f.keys.Parse(string(ev.Kv.Key))
		if err != nil {
			t.damaged = append(t.damaged, err)
			continue
		}
		if n.Kind == PoolKey && ev.Type == clientv3.EventTypePut {
			f.entry(ev.Kv)
		}
		if n.Kind != BlockKey {
			continue
		}
		if ev.PrevKv == nil && !ev.IsCreate() {
			return nil, nil, false
		}
		t.block(n, ev)
	}
	events = t.events()
	for i := range events {
		events[i].Tenure = f.name(events[i].Tenure)
	}
	return events, t.damaged, true
}

// recorded reads a key of the history; ok is false for any other key.
func (f *follower) recorded(t *turn, ev *clientv3.Event) (tenures []ledger.Tenure, ok bool) {
	if key := string(ev.Kv.Key); len(key) < len(f.keys.History()) || key[:len(f.keys.History())] != f.keys.History() {
		return nil, false
	}
	if ev.Type != clientv3.EventTypePut {
		return nil, true // it was pruned
	}
	tenures, err := f.keys.DecodeTenures(ev.Kv)
	if err != nil {
		t.damaged = append(t.damaged, err)
	}
	return tenures, true
}

// block notes the new and the former holders of a block.
func (t *turn) block(n Key, ev *clientv3.Event) {
	var now ledger.Block
	held := false
	if ev.Type == clientv3.EventTypePut {
		now, held = t.held(n, ev.Kv)
	}
	before, had := t.held(n, ev.PrevKv)
	same := held && had && now.Holder.Claim == before.Holder.Claim
	if held && !same {
		t.came = append(t.came, now)
	}
	if had && !same {
		t.went = append(t.went, before)
	}
}

// held returns the block of a key; ok is false if nobody holds it. A cooling block has no holder.
func (t *turn) held(n Key, kv *mvccpb.KeyValue) (b ledger.Block, ok bool) {
	if kv == nil {
		return ledger.Block{}, false
	}
	r, err := DecodeRecord(n.Space, n.Prefix, kv)
	if err != nil {
		t.damaged = append(t.damaged, err)
		return ledger.Block{}, false
	}
	b = r.Block()
	return b, b.State != ledger.Cooling
}

// events are the events of the revision: first the ends of tenures, then the beginnings.
func (t *turn) events() (events []ledger.Event) {
	for _, tenure := range t.ended {
		events = append(events, ledger.Event{Kind: ledger.Released, Tenure: tenure})
	}
	for _, b := range t.went {
		if !t.recordedEnd(b) {
			gone := b.Tenure()
			gone.State = ""
			events = append(events, ledger.Event{Kind: ledger.Released, Tenure: gone})
		}
	}
	for _, b := range t.came {
		events = append(events, ledger.Event{Kind: ledger.Allocated, Tenure: b.Tenure()})
	}
	return events
}

// recordedEnd reports whether the history has the end of a holder's tenure.
func (t *turn) recordedEnd(b ledger.Block) bool {
	return slices.ContainsFunc(t.ended, func(e ledger.Tenure) bool {
		return e.Prefix == b.Prefix && e.Space == b.Space && e.Holder.Claim == b.Holder.Claim
	})
}
