package simetcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/test/must"
)

// calm returns a client of a server, without faults.
func (e *Etcd) calm(t *testing.T) *clientv3.Client {
	l := NewLink(e, func(any) Fate { return Fate{} }, func() time.Duration { return 0 })
	t.Cleanup(l.Cut)
	return l.Client(t.Context())
}

// twins are the simulated etcd and a real one. They get the same requests.
type twins struct {
	t         *testing.T
	rand      *rand.Rand
	clients   [2]*clientv3.Client
	rev       int64 // the current one
	compacted int64
	future    int64 // from which the last watch begins
	watches   []*pair
	recent    []string // the last requests, for a person
}

// pair is the same watch in both servers.
type pair struct {
	name string
	ways [2]*way
}

// way is one watch, with the events that it has brought.
type way struct {
	ch      clientv3.WatchChan
	brought []string
	reached int64 // a revision up to which it has brought everything
	over    bool
}

// render prints a response or an error without the names of the cluster and its members.
func render(resp clientv3.OpResponse, err error) (text string, rev int64) {
	if err != nil {
		return fmt.Sprintf("%T: %v", err, err), 0
	}
	switch {
	case resp.Get() != nil:
		r := pb.RangeResponse(*resp.Get())
		rev, r.Header = r.Header.Revision, header(r.Header.Revision)
		return r.String(), rev
	case resp.Put() != nil:
		r := pb.PutResponse(*resp.Put())
		rev, r.Header = r.Header.Revision, header(r.Header.Revision)
		return r.String(), rev
	case resp.Del() != nil:
		r := pb.DeleteRangeResponse(*resp.Del())
		rev, r.Header = r.Header.Revision, header(r.Header.Revision)
		return r.String(), rev
	default:
		r := pb.TxnResponse(*resp.Txn())
		rev, r.Header = r.Header.Revision, header(r.Header.Revision)
		return r.String(), rev
	}
}

// same fails the test unless both servers do the same.
func (w *twins) same(what string, do func(c *clientv3.Client) string) {
	w.t.Helper()
	w.recent = append(w.recent, what)
	got, want := do(w.clients[0]), do(w.clients[1])
	if got != want {
		last := w.recent[max(0, len(w.recent)-12):]
		w.t.Fatalf("%s at revision %d, compacted at %d\nsimulated: %s\n     real: %s\nafter\n%s",
			what, w.rev, w.compacted, got, want, strings.Join(last, "\n"))
	}
}

// do sends a request to both servers.
func (w *twins) do(what string, op clientv3.Op) {
	w.t.Helper()
	w.same(what, func(c *clientv3.Client) string {
		text, rev := render(c.Do(w.t.Context(), op))
		w.rev = max(w.rev, rev)
		return text
	})
}

// watch begins a watch in both servers.
func (w *twins) watch(ctx context.Context, name, key string, opts ...clientv3.OpOption) {
	p := &pair{name: name}
	w.future = max(w.future, clientv3.OpGet(key, opts...).Rev())
	for i, c := range w.clients {
		p.ways[i] = &way{ch: c.Watch(ctx, key, opts...)}
	}
	w.watches = append(w.watches, p)
}

// settle waits until all watches have brought all events, and compares them.
func (w *twins) settle() {
	w.t.Helper()
	for w.rev < w.future { // a stream with a watch from a future revision gets no progress
		w.do(w.put())
	}
	for i, c := range w.clients {
		for deadline := time.Now().Add(30 * time.Second); !w.settled(i); {
			if time.Now().After(deadline) {
				w.t.Fatalf("watches of %d have not reached revision %d", i, w.rev)
			}
			must.Do(w.t, c.RequestProgress(w.t.Context()))
			<-time.After(time.Millisecond) // etcd begins watches from the past each 100 ms
			for _, p := range w.watches {
				p.ways[i].read()
			}
		}
	}
	for _, p := range w.watches {
		w.same(p.name, func(c *clientv3.Client) string {
			if c == w.clients[0] {
				return strings.Join(p.ways[0].brought, "\n")
			}
			return strings.Join(p.ways[1].brought, "\n")
		})
	}
}

func (w *twins) settled(i int) bool {
	for _, p := range w.watches {
		if !p.ways[i].over && p.ways[i].reached < w.rev {
			return false
		}
	}
	return true
}

// read takes the responses that have come.
func (y *way) read() {
	for !y.over {
		select {
		case resp, ok := <-y.ch:
			y.take(resp, ok)
		default:
			return
		}
	}
}

func (y *way) take(resp clientv3.WatchResponse, ok bool) {
	if !ok {
		y.over = true
		y.brought = append(y.brought, "closed")
		return
	}
	if resp.IsProgressNotify() {
		y.reached = resp.Header.Revision
		return
	}
	if resp.Created || resp.Err() != nil {
		y.brought = append(y.brought, fmt.Sprintf("created %t at %d, canceled %t: %v, compacted at %d",
			resp.Created, resp.Header.Revision, resp.Canceled, resp.Err(), resp.CompactRevision))
	}
	for _, ev := range resp.Events {
		y.brought = append(y.brought, fmt.Sprintf("%v %v before %v", ev.Type, ev.Kv, ev.PrevKv))
	}
}
