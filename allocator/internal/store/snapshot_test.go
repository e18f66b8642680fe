package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// manyBlocks is a store of small pages, and the keys of the blocks in it. One of them cannot be read.
func manyBlocks(t *testing.T) (s *Store, keys []string) {
	t.Helper()
	etcd := etcdtest.New(t)
	s = NewStore(etcd.Client(), "")
	s.Page = 50
	value := Record{Held: &Holding{Pool: "p", Claim: "c", Cluster: "w", Name: "n", Policy: ledger.Delete, State: ledger.Bound}}.Encode()
	var puts []clientv3.Op
	for i := range 2000 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
		keys = append(keys, s.Keys.Space("p").Block(p))
		puts = append(puts, Put(keys[i], value))
	}
	puts[700] = Put(keys[700], "{")
	for group := range slices.Chunk(puts, etcd.MaxTxnOps()) {
		must.Get(s.Commit(t.Context(), nil, group, nil))(t)
	}
	return s, keys
}

// However far pages are read ahead, a snapshot visits each key once, in order.
func TestSnapshot_VisitsAllInOrder(t *testing.T) {
	s, keys := manyBlocks(t)
	var visited []string
	revision, err := s.Snapshot(t.Context(), func(e *Entry) {
		visited = append(visited, e.Text)
		if damaged := e.Text == keys[700]; damaged != (e.Damage != nil) {
			t.Errorf("key %s: damage is %v", e.Text, e.Damage)
		}
	})
	if err != nil || revision == 0 {
		t.Fatalf("Snapshot = %d, %v; want a revision", revision, err)
	}
	if !slices.Equal(visited, keys) {
		t.Errorf("%d keys were visited, want the %d of the blocks in their order", len(visited), len(keys))
	}
}

// A snapshot that is cancelled before its end fails.
func TestSnapshot_FailsWhenCancelled(t *testing.T) {
	s, keys := manyBlocks(t)
	for _, after := range []int{1, 60, 1000, 1999} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			visited := 0
			_, err := s.Snapshot(ctx, func(*Entry) {
				if visited++; visited == after {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Snapshot = %v after %d of %d keys, cancelled at %d; want %v", err, visited, len(keys), after, context.Canceled)
			}
		})
	}
}
