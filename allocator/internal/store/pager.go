package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go4.org/netipx"
)

// pageSize is how many keys are read at once: about 500 kB.
const pageSize = 1_000

// Pager reads ranges of keys, page by page, all at one revision. It is for one goroutine.
//
// For each page etcd counts the keys to the end of the requested range, and no write can proceed meanwhile. If each
// request covered the whole rest of the range, a list of n pages would cost n², and would delay every bind. So the
// pager requests a part of the range at a time. Parts grow and shrink, so that each has about a page of keys. Among the
// blocks of a pool, a part is a prefix of addresses. Elsewhere, a part has the keys that share their first bytes.
//
// Where a part reaches into a region of much denser keys, etcd counts that part as a whole, once. A window that is
// marked full is known to be such a region.
type Pager struct {
	store    *Store   // before each page, the pager gives way to its transactions
	Size     int      // keys in a page
	Fit      int      // keys in a part
	revision int64    // revision of all pages; 0: that of the first page
	Cuts     []string // keys at which a part begins, in order
	Windows  []window // in the order of their keys, no two overlap
}

// window is where the blocks of a pool lie.
type window struct {
	keys      SpaceKeys
	cidr      netip.Prefix
	from, end string // of its keys
	full      bool   // more than a page of keys is known to be there
}

// place is the position of a pager in a range.
type place struct {
	from  string
	skip  int        // how many windows after the first one a part covers
	depth int        // how many first bytes the keys of a part share; 0: any number
	in    *window    // the window in which parts are prefixes; nil: parts are no prefixes
	bits  int        // length of these prefixes
	addr  netip.Addr // an address in the next part
	began time.Time  // when the last page was requested
}

// part returns the next part in a window, as a prefix.
func (at *place) part() netip.Prefix { return netip.PrefixFrom(at.addr, at.bits).Masked() }

// Keys yields the keys of a range, in order. After an error it ends. ErrExpired: etcd has compacted the revision. While
// the caller uses a page, the next one is read.
func (p *Pager) Keys(ctx context.Context, from, end string) iter.Seq2[*mvccpb.KeyValue, error] {
	return func(yield func(*mvccpb.KeyValue, error) bool) {
		for page, err := range p.pages(ctx, from, end) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, kv := range page {
				if !yield(kv, nil) {
					return
				}
			}
		}
	}
}

// pages yields the keys of a range as they are read. After the first page, which may be all that the caller wants,
// it reads one page ahead, unless transactions need the processors.
func (p *Pager) pages(ctx context.Context, from, end string) iter.Seq2[[]*mvccpb.KeyValue, error] {
	return func(yield func([]*mvccpb.KeyValue, error) bool) {
		var work sync.WaitGroup
		defer work.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if from >= end {
			return
		}
		at := place{from: from, began: time.Now()}
		var page []*mvccpb.KeyValue
		var err error
		read := func() { page, err = p.next(ctx, &at, end) }
		read()
		for pages := 1; err == nil && at.from < end; pages++ {
			now, ahead := page, pages > 1 && !p.store.Traffic.busy()
			if ahead {
				work.Go(read)
			}
			if !yield(now, nil) {
				return
			}
			if ahead {
				work.Wait()
			} else {
				read()
			}
		}
		yield(page, err)
	}
}

// next reads the page at a place, and moves on.
func (p *Pager) next(ctx context.Context, at *place, end string) ([]*mvccpb.KeyValue, error) {
	p.store.Traffic.giveWay(ctx, time.Since(at.began))
	at.began = time.Now()
	p.enter(at)
	to := min(end, p.to(at))
	if to <= at.from {
		return nil, fmt.Errorf("list keys: the part from %q ends at %q", at.from, to)
	}
	page, err := p.page(ctx, at.from, to)
	if err != nil {
		return nil, err
	}
	p.advance(at, page, to)
	return page.Kvs, nil
}

// enter leaves a window that ends at the place, or enters a full window if a key of it is there.
func (p *Pager) enter(at *place) {
	if at.in != nil && at.from >= at.in.end {
		at.in, at.depth, at.skip = nil, 0, 0
	}
	w := p.windowAt(at.from)
	if at.in != nil || w == nil || !w.full {
		return
	}
	if addr, ok := w.addr(at.from); ok && w.holds(addr) {
		at.in, at.addr = w, addr
		at.bits = max(w.cidr.Bits(), at.addr.BitLen()-bits.Len(uint(p.Fit))+1)
	}
}

// addr returns the address of the block whose key is given, or whose key comes right before the given one.
func (w *window) addr(key string) (addr netip.Addr, ok bool) {
	block, err := parsePrefix(strings.TrimSuffix(strings.TrimPrefix(key, w.keys.Blocks()), "\x00"))
	return block.Addr(), err == nil
}

// holds reports whether an address is of the window's family. The keys of both families interleave, so keys of the
// other family lie among those of a window.
func (w *window) holds(addr netip.Addr) bool { return addr.Is4() == w.cidr.Addr().Is4() }

// to returns the end of the next part.
func (p *Pager) to(at *place) string {
	if at.in != nil {
		end := at.in.end
		if _, part := at.in.keys.Within(at.part()); part > at.from {
			return min(part, end)
		}
		at.addr = netipx.PrefixLastIP(at.part()).Next() // the last key was the last of its part
		_, part := at.in.keys.Within(at.part())
		return min(part, end)
	}
	to := "\xff"
	if at.depth > 0 {
		to = clientv3.GetPrefixRangeEnd(at.from[:min(at.depth, len(at.from))])
	}
	if i, _ := slices.BinarySearch(p.Cuts, at.from+"\x00"); i < len(p.Cuts) {
		to = min(to, p.Cuts[i])
	}
	next := p.windowsTo(at.from)
	if next < len(p.Windows) && !p.Windows[next].full {
		next += at.skip
	}
	if next < len(p.Windows) {
		to = min(to, p.Windows[next].from)
	}
	return to
}

// advance moves the place behind a page, and adapts the size of the next part. The page is of the part that ends at the
// key to.
func (p *Pager) advance(at *place, page *clientv3.GetResponse, to string) {
	n, count := len(page.Kvs), int(page.Count)
	if page.More {
		last := string(page.Kvs[n-1].Key)
		at.from = last + "\x00"
		if count-n > p.Fit {
			p.narrow(at, string(page.Kvs[n/2].Key), last)
		}
		return
	}
	at.from = to
	if at.in == nil {
		if count < p.Fit/16 {
			at.depth = max(0, at.depth-1)
		}
		if count < p.Fit/2 {
			at.skip = min(2*at.skip+1, len(p.Windows))
		}
		return
	}
	at.addr = netipx.PrefixLastIP(at.part()).Next()
	switch shortest := at.in.cidr.Bits(); {
	case count < p.Fit/16:
		at.bits = max(shortest, at.bits-2)
	case count <= p.Fit/2:
		at.bits = max(shortest, at.bits-1)
	}
}

// narrow makes parts smaller. It takes their size from two keys that are half a page apart.
func (p *Pager) narrow(at *place, middle, last string) {
	at.depth, at.skip = shared(middle, last)+1, 0
	if at.in = p.windowAt(last); at.in == nil {
		return
	}
	blocks := at.in.keys.Blocks()
	to, err := parsePrefix(strings.TrimPrefix(last, blocks))
	if err != nil || !at.in.holds(to.Addr()) {
		at.in = nil
		return
	}
	at.addr, at.bits = to.Addr(), to.Addr().BitLen()
	if from, err := parsePrefix(strings.TrimPrefix(middle, blocks)); err == nil && at.in.cidr.Contains(from.Addr()) {
		at.bits = min(at.bits, commonBits(from.Addr(), to.Addr())+1)
	}
}

// windowsTo counts the windows that begin at a key or before.
func (p *Pager) windowsTo(key string) int {
	i, ok := slices.BinarySearchFunc(p.Windows, key, func(w window, key string) int { return cmp.Compare(w.from, key) })
	if ok {
		i++
	}
	return i
}

// windowAt is the window of a key; nil if there is none.
func (p *Pager) windowAt(key string) *window {
	i := p.windowsTo(key)
	if i == 0 || key >= p.Windows[i-1].end {
		return nil
	}
	return &p.Windows[i-1]
}

// commonBits is the number of first bits that two addresses have in common.
func commonBits(a, b netip.Addr) int {
	x, y := a.AsSlice(), b.AsSlice()
	for i := range x {
		if d := x[i] ^ y[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d)
		}
	}
	return 8 * len(x)
}

// shared is the number of first bytes that two keys have in common.
func shared(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func (p *Pager) page(ctx context.Context, from, to string) (*clientv3.GetResponse, error) {
	if err := p.store.CheckOpen(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.store.Timeout)
	defer cancel()
	limit := int64(p.store.Traffic.page(p.Size))
	page, err := p.store.Client.Get(ctx, from,
		clientv3.WithRange(to), clientv3.WithRev(p.revision), clientv3.WithLimit(limit))
	if Compacted(err) {
		return nil, ledger.ErrExpired
	}
	if err != nil {
		return nil, p.store.Unavailable(err)
	}
	if p.revision == 0 {
		p.revision = page.Header.Revision
	}
	return page, nil
}

// Windows returns the windows of some pools, without a window whose keys begin inside another window.
func Windows(keys Keys, pools []ledger.Pool, full bool) (apart []window) {
	all := make([]window, len(pools))
	for i, p := range pools {
		w := window{keys: keys.Space(p.Space), cidr: p.CIDR, full: full}
		w.from, w.end = w.keys.Within(p.CIDR)
		all[i] = w
	}
	slices.SortFunc(all, func(a, b window) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.end, a.end)) })
	for _, w := range all {
		if n := len(apart); n == 0 || apart[n-1].end <= w.from {
			apart = append(apart, w)
		}
	}
	return apart
}
