package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Whatever keys there are and wherever it is cut, a pager yields each once, in order.
func TestPager_YieldsAll(t *testing.T) {
	etcd := etcdtest.New(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 10 {
		keys := map[string]bool{}
		prefix := fmt.Sprintf("/r%02d/", round)
		for range rng.IntN(20) {
			stem := prefix + randomKey(rng, 12)
			for range rng.IntN(100) {
				keys[stem+randomKey(rng, 1+rng.IntN(4))] = true
			}
		}
		var puts []clientv3.Op
		for key := range keys {
			puts = append(puts, Put(key, ""))
		}
		for group := range slices.Chunk(puts, 1000) {
			if _, err := etcd.Client().Txn(t.Context()).Then(group...).Commit(); err != nil {
				t.Fatalf("etcd transaction: %v", err)
			}
		}
		want := slices.Sorted(maps.Keys(keys))
		p := &Pager{client: etcd.Client(), traffic: &traffic{}, timeout: DefaultTimeout, Size: 2 + rng.IntN(50)}
		p.Fit = p.Size
		if round%2 == 0 {
			p.traffic.last = time.Now() // it reads no pages ahead
		}
		for range rng.IntN(3) {
			key := prefix + randomKey(rng, 12)
			p.Cuts = append(p.Cuts, key)
		}
		slices.Sort(p.Cuts)
		var got []string
		for kv, err := range p.Keys(t.Context(), prefix, clientv3.GetPrefixRangeEnd(prefix)) {
			if err != nil {
				t.Fatalf("Keys: %v", err)
			}
			got = append(got, string(kv.Key))
		}
		if !slices.Equal(got, want) {
			t.Errorf("round %d: %d keys; want %d", round, len(got), len(want))
		}
	}
}

func randomKey(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[rng.IntN(16)]
	}
	return string(b)
}
