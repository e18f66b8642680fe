package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const ledgerPrefix = "/ipam/v1/"

// change is one revision of the ledger.
type change struct {
	revision int64
	seen     int64 // when the history learned of it, in nanoseconds since the start of the run
	events   []event
}

// event is one key of a change.
type event struct {
	key     string // without the ledger's prefix
	value   []byte // nil if it was deleted
	created bool
}

// history is every revision of the ledger, as etcd reports it to a client that is connected past all links.
type history struct {
	now  func() int64
	done chan struct{}

	mu      sync.Mutex
	changes []change
	last    int64
	grown   chan struct{}
	err     error
}

func newHistory(now func() int64) *history {
	return &history{now: now, done: make(chan struct{}), grown: make(chan struct{})}
}

// follow reads all revisions from the first one on, until the context ends.
func (h *history) follow(ctx context.Context, client *clientv3.Client) {
	defer close(h.done)
	for resp := range client.Watch(ctx, ledgerPrefix, clientv3.WithPrefix(), clientv3.WithRev(1)) {
		h.add(resp.Events, resp.Err())
	}
}

func (h *history) add(events []*clientv3.Event, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.err = fmt.Errorf("the history has a gap: %w", err)
	}
	for _, e := range events {
		h.addEvent(e)
	}
	close(h.grown)
	h.grown = make(chan struct{})
}

func (h *history) addEvent(e *clientv3.Event) {
	if e.Kv.ModRevision > h.last {
		h.last = e.Kv.ModRevision
		h.changes = append(h.changes, change{revision: h.last, seen: h.now()})
	}
	made := event{key: strings.TrimPrefix(string(e.Kv.Key), ledgerPrefix), created: e.IsCreate()}
	if e.Type == mvccpb.PUT {
		made.value = e.Kv.Value
	}
	last := &h.changes[len(h.changes)-1]
	last.events = append(last.events, made)
}

// revision returns the last revision that is in the history.
func (h *history) revision() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// sofar returns what is in the history by now.
func (h *history) sofar() []change {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.changes)
}

// upTo waits until the history has a revision, and returns the whole history.
func (h *history) upTo(ctx context.Context, revision int64) ([]change, error) {
	for {
		h.mu.Lock()
		changes, last, grown, err := h.changes, h.last, h.grown, h.err
		h.mu.Unlock()
		if err != nil || last >= revision {
			return changes, err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, fmt.Errorf("the history ends at revision %d, the ledger at %d: %w", last, revision, context.Cause(ctx))
		}
	}
}
