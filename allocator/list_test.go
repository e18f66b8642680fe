package allocator

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// counter notes how many keys etcd has counted.
type counter struct {
	clientv3.KV
	mu sync.Mutex
	pagesRead
}

type pagesRead struct{ pages, sum, most int64 }

// reset forgets what was counted.
func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pagesRead = pagesRead{}
}

func (c *counter) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := c.KV.Get(ctx, key, opts...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if op := clientv3.OpGet(key, opts...); err == nil && op.RangeBytes() != nil {
		c.pages, c.sum, c.most = c.pages+1, c.sum+resp.Count, max(c.most, resp.Count)
	}
	return resp, err
}

// putBlocks writes blocks of a pool as another allocator would, without their claims.
func (l *fixture) putBlocks(pool ledger.PoolID, blocks []netip.Prefix) {
	l.t.Helper()
	for group := range slices.Chunk(blocks, 1000) {
		var puts []clientv3.Op
		for _, p := range group {
			h := wanted{Request: request(pool, fmt.Sprint(pool, p), 0)}.holding(time.Unix(0, 0))
			puts = append(puts, store.Put(l.keys.Space(ledger.SpaceID(pool)).Block(p), store.Record{Held: &h}.Encode()))
		}
		must.Get(l.etcd.Client().Txn(l.t.Context()).Then(puts...).Commit())(l.t)
	}
}

// dense returns n blocks, one beside the other.
func dense(first string, n int) []netip.Prefix {
	p := prefix(first)
	blocks := []netip.Prefix{}
	for range n {
		blocks = append(blocks, p)
		a := p.Addr().AsSlice()
		for i := (p.Bits() - 1) / 8; ; i-- {
			if a[i]++; a[i] != 0 {
				break
			}
		}
		next, _ := netip.AddrFromSlice(a)
		p = netip.PrefixFrom(next, p.Bits())
	}
	return blocks
}

// A list, whole or in parts, has every block once, in order. However the blocks lie, etcd counts not many more keys for
// the list than it reads. Only the first page behind a hole may make etcd count many more.
func TestList_MakesEtcdCountFewMoreKeysThanItReads(t *testing.T) {
	const page, blocks = 64, 10_000
	for name, pools := range map[string]map[string][]netip.Prefix{
		"hosts":            {"10.0.0.0/8": dense("10.0.0.0/32", blocks)},
		"hosts and a hole": {"10.0.0.0/8": append(dense("10.0.0.0/32", blocks/2), dense("10.64.0.0/32", blocks/2)...)},
		"blocks of IPv6":   {"2001:db8::/32": dense("2001:db8::/64", blocks)},
		"large and small": {
			"10.0.0.0/8": dense("10.0.0.0/32", blocks/2), "2001:db8::/32": dense("2001:db8::/64", blocks/2),
			"11.0.0.0/8": dense("11.0.0.0/32", 3), "12.0.0.0/8": dense("12.0.0.0/32", 1), "13.0.0.0/8": nil, "14.0.0.0/8": dense("14.0.0.0/32", 5*page),
		},
		"small": smallPools(300, page),
	} {
		t.Run(name, func(t *testing.T) {
			l := &fixture{t: t, etcd: etcdtest.New(t)}
			counted := &counter{KV: l.etcd.Client().KV}
			l.etcd.Client().KV = counted
			l.Allocator = l.open()
			want, i := 0, 0
			for cidr, blocks := range pools {
				i++
				id := ledger.PoolID(fmt.Sprintf("%x-pool", i*i*i))
				l.pool(id, cidr)
				l.putBlocks(id, blocks)
				want += len(blocks)
			}
			a := l.open()
			a.store.Page = page
			counted.reset()
			whole := listed(t, a, ListOptions{})
			if len(whole) != want {
				t.Errorf("List has %d blocks; want %d", len(whole), want)
			}
			counted.want(t, "List", want, 2)
			if most := int64(4 * page); counted.most > most && !strings.Contains(name, "hole") {
				t.Errorf("a page of %d counts %d keys; want at most %d", page, counted.most, most)
			}
			counted.reset()
			var parts []ledger.Block
			for at, more := (ledger.Position{}), true; more && len(parts) <= want; {
				at, more = readPart(t, a, at, 500, &parts)
			}
			if fmt.Sprint(parts) != fmt.Sprint(whole) {
				t.Errorf("the parts have %d blocks, which are not the %d of the list", len(parts), want)
			}
			counted.want(t, "List in parts", want, 3)
			counted.reset()
			must.Get(a.store.Snapshot(t.Context(), func(*store.Entry) {}))(t)
			counted.want(t, "snapshot", want, 4)
		})
	}
}

// want fails the test if etcd has counted more than a multiple of the keys that there are, or has read many more pages
// than these keys fill.
func (c *counter) want(t *testing.T, what string, keys int, times int64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("%s of %d blocks: %d pages counted %d keys, at most %d", what, keys, c.pages, c.sum, c.most)
	if most := times * int64(keys+1000); c.sum > most {
		t.Errorf("%s of %d blocks counts %d keys; want at most %d", what, keys, c.sum, most)
	}
	if most := int64(4*keys/64 + 300); c.pages > most {
		t.Errorf("%s of %d blocks reads %d pages; want at most %d", what, keys, c.pages, most)
	}
}

// smallPools returns pools of less than a page each.
func smallPools(n, page int) map[string][]netip.Prefix {
	pools := map[string][]netip.Prefix{}
	for i := range n {
		pools[fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)] = dense(fmt.Sprintf("10.%d.%d.0/32", i/256, i%256), i%page)
	}
	return pools
}

// readPart adds the next n blocks to a list, and returns where they end, and whether there may be more.
func readPart(t *testing.T, a *Allocator, after ledger.Position, n int, to *[]ledger.Block) (last ledger.Position, more bool) {
	t.Helper()
	for b, err := range a.List(t.Context(), ListOptions{After: after}) {
		if err != nil {
			t.Fatalf("List after %v: %v", after, err)
		}
		*to = append(*to, b)
		if n--; n == 0 {
			return ledger.Position{Space: b.Space, Prefix: b.Prefix}, true
		}
	}
	return ledger.Position{}, false
}
