package allocator

import (
	"crypto/sha256"
	"iter"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/google/btree"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// former identifies the object that a cooling block belonged to: a hash of its workspace,
// namespace and name. There may be many of them, so that the names themselves are not kept.
type former [16]byte

// former is that of the holder. A later object of its name has the same one.
func formerOf(h Holder) former {
	sum := sha256.Sum256([]byte(string(h.Cluster) + "\x00" + h.Namespace + "\x00" + h.Name))
	return former(sum[:16])
}

// cooled is what a space knows of a cooling block.
type cooled struct {
	until  int64 // in milliseconds of the wall clock
	claim  ClaimID
	former former
	owner  unique.Handle[owner]
	taken  bool // the group that is being placed gives it back to its former holder
}

func (c cooled) end() time.Time { return time.UnixMilli(c.until).UTC() }

// cooled is what the record says of a block that cools; nil if it does not.
func cooledOf(r store.Record) *cooled {
	h := r.Holdings[0]
	if h.State != Cooling || r.Disputed {
		return nil
	}
	return &cooled{
		until: h.Until.UnixMilli(), claim: ClaimID(strings.Clone(string(h.Claim))),
		former: formerOf(Holder{Cluster: h.Cluster, Namespace: h.Namespace, Name: h.Name}), owner: unique.Make(ownerOf(h)),
	}
}

// cooling are the cooling blocks of one space. The zero value is empty. The space's lock
// guards it.
type cooling struct {
	blocks map[netip.Prefix]cooled
	former map[former][]netip.Prefix
	sums   map[account]*big.Int // of pools: what of it cools
}

// deadline is when a cooling block is free.
type deadline struct {
	until  int64
	prefix netip.Prefix
}

func (d deadline) less(than deadline) bool {
	if d.until != than.until {
		return d.until < than.until
	}
	return ledger.ComparePrefixes(d.prefix, than.prefix) < 0
}

// chill are the cooling blocks in the window of one pool: the sum of their addresses, and
// when each is free. The zero value is empty.
type chill struct {
	ends *btree.BTreeG[deadline]
	sum  big.Int
	own  int // blocks of the pool itself
}

// cool notes that a block cools.
func (s *space) cool(prefix netip.Prefix, c cooled) {
	s.uncool(prefix)
	if s.cooling.blocks == nil {
		s.cooling = cooling{blocks: map[netip.Prefix]cooled{}, former: map[former][]netip.Prefix{}, sums: map[account]*big.Int{}}
	}
	s.cooling.blocks[prefix] = c
	s.cooling.former[c.former] = append(s.cooling.former[c.former], prefix)
	for _, p := range s.pools {
		p.cool(prefix, c)
	}
	s.postCooling(prefix, c, 1)
	s.touchAll(prefix)
	s.wakeFormer(c)
}

// uncool notes that a block does not cool, or does not any longer.
func (s *space) uncool(prefix netip.Prefix) {
	c, ok := s.cooling.blocks[prefix]
	if !ok {
		return
	}
	delete(s.cooling.blocks, prefix)
	rest := slices.DeleteFunc(s.cooling.former[c.former], func(p netip.Prefix) bool { return p == prefix })
	if s.cooling.former[c.former] = rest; len(rest) == 0 {
		delete(s.cooling.former, c.former)
	}
	for _, p := range s.pools {
		p.uncool(prefix, c)
	}
	s.postCooling(prefix, c, -1)
}

// cool notes a cooling block of the pool's space, if it overlaps the pool.
func (p *pool) cool(prefix netip.Prefix, c cooled) {
	if !p.CIDR.Overlaps(prefix) {
		return
	}
	if p.chill.ends == nil {
		p.chill.ends = btree.NewG(32, deadline.less)
	}
	p.chill.ends.ReplaceOrInsert(deadline{c.until, prefix})
	p.chill.sum.Add(&p.chill.sum, cidr.Size(cidr.Narrower(p.CIDR, prefix)))
	if c.owner.Value().pool == p.ID {
		p.chill.own++
	}
}

func (p *pool) uncool(prefix netip.Prefix, c cooled) {
	if !p.CIDR.Overlaps(prefix) {
		return
	}
	p.chill.ends.Delete(deadline{c.until, prefix})
	p.chill.sum.Sub(&p.chill.sum, cidr.Size(cidr.Narrower(p.CIDR, prefix)))
	if c.owner.Value().pool == p.ID {
		p.chill.own--
	}
}

// postCooling adds a cooling block to what cools of a workspace's account with the pool, or
// takes it away.
func (s *space) postCooling(prefix netip.Prefix, c cooled, sign int64) {
	n := cidr.Size(prefix)
	n.Mul(n, big.NewInt(sign))
	for a := range c.owner.Value().accounts() {
		if a.pool == "" {
			continue // its blocks lie in many spaces
		}
		sum, ok := s.cooling.sums[a]
		if !ok {
			sum = new(big.Int)
			s.cooling.sums[a] = sum
		}
		if sum.Add(sum, n); sum.Sign() == 0 {
			delete(s.cooling.sums, a)
		}
	}
}

// coolingOf is how many addresses of an account with a pool cool.
func (s *space) coolingOf(a account) *big.Int {
	if sum, ok := s.cooling.sums[a]; ok {
		return new(big.Int).Set(sum)
	}
	return new(big.Int)
}

// wakeFormer wakes the claim that waits at the block's pool and has the name of its former
// holder: the block is given to it at once.
func (s *space) wakeFormer(c cooled) {
	p := s.pool(c.owner.Value().pool)
	if p == nil {
		return
	}
	if w, waits := p.waiting.names[c.former]; waits {
		s.news.woken = append(s.news.woken, w.request.Holder)
	}
}

// nextRelease is when the next cooling block of the pool is free; zero if none cools.
func (p *pool) nextRelease() time.Time {
	if p.chill.ends == nil || p.chill.ends.Len() == 0 {
		return time.Time{}
	}
	first, _ := p.chill.ends.Min()
	return time.UnixMilli(first.until).UTC()
}

// lastRelease is when the last cooling block of the pool is free; zero if none cools.
func (p *pool) lastRelease() time.Time {
	if p.chill.ends == nil || p.chill.ends.Len() == 0 {
		return time.Time{}
	}
	last, _ := p.chill.ends.Max()
	return time.UnixMilli(last.until).UTC()
}

// released are the cooling blocks in the pool's window, the next to be free first.
func (p *pool) released() iter.Seq[deadline] {
	return func(yield func(deadline) bool) {
		if p.chill.ends != nil {
			p.chill.ends.Ascend(yield)
		}
	}
}

// regains finds the cooling block that a request gets back: it was the pool's and the
// class's, of an object of the same name, and is what the request asks for.
func (p *pool) regains(r Request) (netip.Prefix, bool) {
	known := p.space.cooling
	if len(known.blocks) == 0 {
		return netip.Prefix{}, false
	}
	by := unique.Make(owner{pool: r.Pool, cluster: r.Holder.Cluster, class: r.Class, slice: r.Slice})
	for _, prefix := range known.former[formerOf(r.Holder)] {
		wanted := r.Exact == prefix || !r.Exact.IsValid() && r.Length == prefix.Bits()
		c := known.blocks[prefix]
		if wanted && c.owner == by && !c.taken && contains(p.CIDR, prefix) && p.excludes(prefix) == nil {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

// coolingAt finds the cooling block that a prefix is, or lies in.
func (s *space) coolingAt(p netip.Prefix) (prefix netip.Prefix, c cooled, ok bool) {
	for bits := p.Bits(); bits >= 0 && len(s.cooling.blocks) > 0; bits-- {
		prefix = netip.PrefixFrom(p.Addr(), bits).Masked()
		if c, ok = s.cooling.blocks[prefix]; ok {
			return prefix, c, true
		}
	}
	return netip.Prefix{}, cooled{}, false
}

// mark notes that the group that is being placed gives a cooling block back, or that it has
// come to nothing.
func (s *space) mark(prefix netip.Prefix, taken bool) {
	if c, ok := s.cooling.blocks[prefix]; ok {
		c.taken = taken
		s.cooling.blocks[prefix] = c
	}
}

// regained turns a cooling block into one of a holder, committed at the revision.
func (s *space) regained(by owner, prefix netip.Prefix, revision int64) {
	if revision <= s.known {
		return // the watch was faster
	}
	s.own(prefix, ownersOf(store.Record{Holdings: []store.Holding{{Pool: by.pool, Cluster: by.cluster, Class: by.class, Slice: by.slice}}}))
	s.uncool(prefix)
}
