package store

import (
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/test/must"
)

// The watch brings each change that memory needs, one revision at a time, and leaves out those to claims
// and to the history.
func TestWatch(t *testing.T) {
	etcd := etcdtest.New(t)
	s := NewStore(etcd.Client(), "")
	space := s.Keys.Space("s")
	before := must.Get(etcd.Client().Get(t.Context(), "x"))(t)
	commit := func(ops ...clientv3.Op) {
		must.Get(s.Commit(t.Context(), nil, ops, nil))(t)
	}
	commit(Put(s.Keys.ledger(), "{}"), Put(s.Keys.Pool("p"), "{}"), Put(space.Head(), EncodeHead(1, "")))
	commit(Put(s.Keys.Claim("c"), "{}"), Put(s.Keys.History()+"h", "{}"))
	commit(Put(s.Keys.Claim("c"), "{}"), Put(space.Head(), EncodeHead(2, "")), Remove(s.Keys.Pool("p")),
		Put(s.Keys.Roots("k"), "{}"), Put(s.Keys.Quota("class", "k"), "{}"))
	commit(Put(string(s.Keys)+"0", "beside the ledger"), Remove(space.Head()))
	want := [][]string{
		{s.Keys.Pool("p"), space.Head()},
		{s.Keys.Pool("p"), s.Keys.Quota("class", "k"), s.Keys.Roots("k"), space.Head()},
		{space.Head()},
	}
	last := before.Header.Revision
	for b, err := range s.Watch(t.Context(), last) {
		if err != nil {
			t.Fatalf("Watch: %v", err)
		}
		if len(b.Entries) == 0 {
			continue
		}
		var got []string
		for _, e := range b.Entries {
			got = append(got, e.Text)
		}
		slices.Sort(got)
		slices.Sort(want[0])
		if !slices.Equal(got, want[0]) || b.Revision <= last {
			t.Errorf("after revision %d the watch brings revision %d with %q; want a later one with %q", last, b.Revision, got, want[0])
		}
		last = b.Revision
		if want = want[1:]; len(want) == 0 {
			return
		}
	}
}
