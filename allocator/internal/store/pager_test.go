package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go4.org/netipx"
)

// A pager yields each key once, in order, whatever the keys and the cuts are.
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
			must.Get(etcd.Client().Txn(t.Context()).Then(group...).Commit())(t)
		}
		want := slices.Sorted(maps.Keys(keys))
		p := NewStore(etcd.Client(), "").NewPager(0)
		p.Size = 2 + rng.IntN(50)
		p.Fit = p.Size
		if round%2 == 0 {
			p.store.Traffic.last = time.Now() // it reads no pages ahead
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

// sorted is a store of keys without values, in their order.
type sorted struct {
	clientv3.KV
	keys  []string
	reads int
}

func (kv *sorted) Get(_ context.Context, from string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	op := clientv3.OpGet(from, opts...)
	i, _ := slices.BinarySearch(kv.keys, from)
	j, _ := slices.BinarySearch(kv.keys, string(op.RangeBytes()))
	kv.reads++
	resp := &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: 1}, Count: int64(max(0, j-i))}
	for n, key := range kv.keys[i:max(i, j)] {
		if resp.More = int64(n) == op.Limit(); resp.More {
			break
		}
		resp.Kvs = append(resp.Kvs, &mvccpb.KeyValue{Key: []byte(key)})
	}
	return resp, nil
}

// The keys of IPv4 and IPv6 blocks of one space interleave. A pager yields each key once, in order, and in few reads,
// whatever the pools are.
func TestPager_YieldsAllOfBothFamilies(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	space := Keys("/l").Space("d")
	for four := range 33 {
		for six := range 129 {
			a, b := randomPrefix(rng, 4, four), randomPrefix(rng, 16, six)
			kv, size := &sorted{}, 16+rng.IntN(16)
			for _, pool := range []netip.Prefix{a, b} {
				for range rng.IntN(8 * size) {
					kv.keys = append(kv.keys, space.Block(randomBlock(rng, pool)))
				}
			}
			slices.Sort(kv.keys)
			kv.keys = slices.Compact(kv.keys)
			from := kv.keys
			pools := []ledger.Pool{{ID: "a", Space: "d", CIDR: a}, {ID: "b", Space: "d", CIDR: b}}
			client := clientv3.NewCtxClient(t.Context())
			client.KV = kv
			p := NewStore(client, "").NewPager(0)
			p.Size, p.Fit, p.Windows = size, size, Windows(Keys("/l"), pools, rng.IntN(2) == 0)
			var got []string
			for kv, err := range p.Keys(t.Context(), space.Blocks(), clientv3.GetPrefixRangeEnd(space.Blocks())) {
				if err != nil {
					t.Fatalf("%s and %s: Keys: %v", a, b, err)
				}
				got = append(got, string(kv.Key))
			}
			if !slices.Equal(got, from) {
				t.Errorf("%s and %s: %d keys; want %d", a, b, len(got), len(from))
			}
			if most := 100 + 4*len(from); kv.reads > most {
				t.Errorf("%s and %s: %d reads for %d keys; want at most %d", a, b, kv.reads, len(from), most)
			}
		}
	}
}

func randomPrefix(rng *rand.Rand, bytes, bits int) netip.Prefix {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte(rng.IntN(256))
	}
	addr, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(addr, bits).Masked()
}

// randomBlock is a block in a pool. Most are near its beginning or its end.
func randomBlock(rng *rand.Rand, pool netip.Prefix) netip.Prefix {
	addr, last := pool.Addr().AsSlice(), netipx.PrefixLastIP(pool).AsSlice()
	if rng.IntN(2) == 0 {
		addr = last
	}
	for i := pool.Bits(); i < 8*len(addr); i++ {
		if rng.IntN(3) == 0 {
			addr[i/8] ^= 0x80 >> (i % 8)
		}
	}
	at, _ := netip.AddrFromSlice(addr)
	return netip.PrefixFrom(at, pool.Bits()+rng.IntN(8*len(addr)-pool.Bits()+1)).Masked()
}

// No window of a pager has a key of another one.
func TestWindows_AreApart(t *testing.T) {
	var pools []ledger.Pool
	for _, cidr := range []string{"10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16", "11.0.0.0/8"} {
		pools = append(pools, ledger.Pool{Space: "d", CIDR: netip.MustParsePrefix(cidr)})
	}
	var got []string
	for _, w := range Windows("/l", pools, false) {
		got = append(got, w.cidr.String())
	}
	if want := []string{"10.0.0.0/8", "11.0.0.0/8"}; !slices.Equal(got, want) {
		t.Errorf("Windows = %v, want %v", got, want)
	}
}
