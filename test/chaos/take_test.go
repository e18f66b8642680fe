package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/must"
)

// take makes an allocator show that it has the office, or take it, by registering a pool again, which changes
// nothing. An allocator that was deposed learns of that by the transaction, and opens the ledger for the next one.
func (t *traffic) take(ctx context.Context, to int) error {
	return retry.Do(ctx, patience, "take the office", func(ctx context.Context) error {
		w := windows[0]
		if o := t.do(ctx, to, request{Do: "register", Pool: w.ID, Timeout: patience}); o != (outcome{Prefix: w.CIDR}) {
			return fmt.Errorf("register %s: %+v", w.ID, o)
		}
		return nil
	})
}

// capacity returns the capacity of a pool in the memory of an allocator.
func (t *traffic) capacity(ctx context.Context, of int, id ledger.PoolID) outcome {
	return t.do(ctx, of, request{Do: "capacity", Pool: id, Timeout: patience})
}

// inProcess returns a host whose worker is in this process.
func inProcess(t *testing.T, client *clientv3.Client) *host {
	t.Helper()
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	w := &worker{etcd: client, turn: make(chan struct{}, 1), out: json.NewEncoder(out)}
	l := &life{in: json.NewEncoder(requests), answers: map[int]chan outcome{}}
	served := make(chan error, 1)
	go l.read(answers)
	go func() { served <- w.serve(in) }()
	t.Cleanup(func() {
		must.Do(t, requests.Close())
		must.Do(t, <-served)
		w.close()
		must.Do(t, out.Close())
	})
	return &host{life: l}
}

// A deposed allocator that was asked for no transaction since remembers the former ledger, and still answers lookups
// from the present ledger. An allocator that takes the office knows what the ledger holds. Taking it changes nothing
// else.
func TestTake(t *testing.T) {
	t.Parallel()
	etcd, ctx := etcdtest.New(t).Client(), t.Context()
	s := &traffic{hosts: []*host{inProcess(t, etcd), inProcess(t, etcd)}, started: time.Now()}
	must.Do(t, s.take(ctx, 0))
	must.Do(t, s.take(ctx, 1))
	bound := s.do(ctx, 1, request{Do: "bind", Pool: "a", Claim: "claim", Length: 28, Timeout: patience})
	if bound.Revision == 0 {
		t.Fatalf("bind: %+v, want a block", bound)
	}
	if got := s.capacity(ctx, 0, "a"); got.Blocks != 0 {
		t.Errorf("a deposed allocator holds %+v; want what it knew before, or let memory ask it without a take", got)
	}
	if got := s.do(ctx, 0, request{Do: "lookup", Claim: "claim", Timeout: patience}); got != bound {
		t.Errorf("a deposed allocator looks up %+v, want %+v", got, bound)
	}
	h := newHistory(s.now)
	before := revision(t, etcd)
	must.Do(t, s.take(ctx, 0))
	if got := s.capacity(ctx, 0, "a"); got.Blocks != 1 || got.Free != "112" {
		t.Errorf("an allocator that took the office holds %+v, want one block, and 112 free addresses", got)
	}
	must.Do(t, s.take(ctx, 0)) // it has the office
	for resp := range etcd.Watch(ctx, ledgerPrefix, clientv3.WithPrefix(), clientv3.WithRev(before+1)) {
		h.add(resp.Events, resp.Err())
		if h.revision() == revision(t, etcd) {
			break
		}
	}
	if changes := h.sofar(); len(changes) != 1 || len(takings(changes)) != 0 {
		t.Errorf("to take the office twice was %v, want one change, of the head", changes)
	}
}

// revision returns the revision of the last change of the ledger.
func revision(t *testing.T, etcd *clientv3.Client) int64 {
	t.Helper()
	return must.Get(etcd.Get(t.Context(), ledgerPrefix))(t).Header.Revision
}

// takings passes a ledger if only its office has changed hands, and no other ledger.
func TestTakings(t *testing.T) {
	if problems := takings([]change{took(2, 1, 0), took(3, 2, 0)}); len(problems) != 0 {
		t.Errorf("two takings: %v", problems)
	}
	if problems := takings([]change{took(2, 1, 0), bound(3, "one", "10.2.0.16/28", 1)}); !strings.Contains(strings.Join(problems, "\n"), "claims/one") {
		t.Errorf("a bind is not found: %v", problems)
	}
}
