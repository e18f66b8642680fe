package space

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

// formerOf is that of the holder. A later object of its name has the same one.
func formerOf(h ledger.Holder) former {
	sum := sha256.Sum256([]byte(string(h.Cluster) + "\x00" + h.Namespace + "\x00" + h.Name))
	return former(sum[:16])
}

// Cooled is what a space knows of a cooling block.
type Cooled struct {
	until  int64 // in milliseconds of the wall clock
	freed  int64 // the same of when it was freed; 0: that is not known
	Claim  ledger.ClaimID
	former former
	Owner  unique.Handle[Owner]
	taken  bool // the group that is being placed gives it back to its former holder
}

// End is when the block is free.
func (c Cooled) End() time.Time { return time.UnixMilli(c.until).UTC() }

// Freed is when the block began to cool; zero if that is not known.
func (c Cooled) Freed() time.Time {
	if c.freed == 0 {
		return time.Time{}
	}
	return time.UnixMilli(c.freed).UTC()
}

// CooledOf is what the record says of a block that cools; nil if it does not.
func CooledOf(r store.Record) *Cooled {
	h := r.Holdings[0]
	if h.State != ledger.Cooling || r.Disputed {
		return nil
	}
	freed := int64(0)
	if !h.Since.IsZero() {
		freed = h.Since.UnixMilli()
	}
	return &Cooled{
		until: h.Until.UnixMilli(), freed: freed, Claim: ledger.ClaimID(strings.Clone(string(h.Claim))),
		former: formerOf(ledger.Holder{Cluster: h.Cluster, Namespace: h.Namespace, Name: h.Name}), Owner: unique.Make(OwnerOf(h)),
	}
}

// coolingBlocks are the cooling blocks of one space. The zero value is empty. The space's lock
// guards it.
type coolingBlocks struct {
	Blocks map[netip.Prefix]Cooled
	former map[former][]netip.Prefix
	sums   map[Account]*big.Int // of pools: what of it cools
}

// deadline is when a cooling block is free.
type deadline struct {
	Until  int64
	Prefix netip.Prefix
}

func (d deadline) less(than deadline) bool {
	if d.Until != than.Until {
		return d.Until < than.Until
	}
	return ledger.ComparePrefixes(d.Prefix, than.Prefix) < 0
}

// coolingWindow are the cooling blocks in the window of one pool: the sum of their addresses, and
// when each is free. The zero value is empty.
type coolingWindow struct {
	ends *btree.BTreeG[deadline]
	sum  big.Int
	Own  int // blocks of the pool itself
}

// Cool notes that a block cools.
func (s *Space) Cool(prefix netip.Prefix, c Cooled) {
	s.uncool(prefix)
	if s.Cooling.Blocks == nil {
		s.Cooling = coolingBlocks{Blocks: map[netip.Prefix]Cooled{}, former: map[former][]netip.Prefix{}, sums: map[Account]*big.Int{}}
	}
	s.Cooling.Blocks[prefix] = c
	s.Cooling.former[c.former] = append(s.Cooling.former[c.former], prefix)
	for _, p := range s.Pools {
		p.cool(prefix, c)
	}
	s.postCooling(prefix, c, 1)
	s.touchAll(prefix)
	s.wakeFormer(c)
}

// uncool notes that a block does not cool, or does not any longer.
func (s *Space) uncool(prefix netip.Prefix) {
	c, ok := s.Cooling.Blocks[prefix]
	if !ok {
		return
	}
	delete(s.Cooling.Blocks, prefix)
	rest := slices.DeleteFunc(s.Cooling.former[c.former], func(p netip.Prefix) bool { return p == prefix })
	if s.Cooling.former[c.former] = rest; len(rest) == 0 {
		delete(s.Cooling.former, c.former)
	}
	for _, p := range s.Pools {
		p.uncool(prefix, c)
	}
	s.postCooling(prefix, c, -1)
}

// cool notes a cooling block of the pool's space, if it overlaps the pool.
func (p *Pool) cool(prefix netip.Prefix, c Cooled) {
	if !p.CIDR.Overlaps(prefix) {
		return
	}
	if p.Cools.ends == nil {
		p.Cools.ends = btree.NewG(32, deadline.less)
	}
	p.Cools.ends.ReplaceOrInsert(deadline{c.until, prefix})
	p.Cools.sum.Add(&p.Cools.sum, cidr.Size(cidr.Narrower(p.CIDR, prefix)))
	if c.Owner.Value().Pool == p.ID {
		p.Cools.Own++
	}
}

func (p *Pool) uncool(prefix netip.Prefix, c Cooled) {
	if !p.CIDR.Overlaps(prefix) {
		return
	}
	p.Cools.ends.Delete(deadline{c.until, prefix})
	p.Cools.sum.Sub(&p.Cools.sum, cidr.Size(cidr.Narrower(p.CIDR, prefix)))
	if c.Owner.Value().Pool == p.ID {
		p.Cools.Own--
	}
}

// postCooling adds a cooling block to what cools of a workspace's account with the pool, or
// takes it away.
func (s *Space) postCooling(prefix netip.Prefix, c Cooled, sign int64) {
	n := cidr.Size(prefix)
	n.Mul(n, big.NewInt(sign))
	for a := range c.Owner.Value().accounts() {
		if a.pool == "" {
			continue // its blocks lie in many spaces
		}
		sum, ok := s.Cooling.sums[a]
		if !ok {
			sum = new(big.Int)
			s.Cooling.sums[a] = sum
		}
		if sum.Add(sum, n); sum.Sign() == 0 {
			delete(s.Cooling.sums, a)
		}
	}
}

// coolingOf is how many addresses of an account with a pool cool.
func (s *Space) coolingOf(a Account) *big.Int {
	if sum, ok := s.Cooling.sums[a]; ok {
		return new(big.Int).Set(sum)
	}
	return new(big.Int)
}

// wakeFormer wakes the claim that waits at the block's pool and has the name of its former
// holder: the block is given to it at once.
func (s *Space) wakeFormer(c Cooled) {
	p := s.Pool(c.Owner.Value().Pool)
	if p == nil {
		return
	}
	if w, waits := p.Waiting.names[c.former]; waits {
		s.news.Woken = append(s.news.Woken, w.request.Holder)
	}
}

// NextRelease is when the next cooling block of the pool is free; zero if none cools.
func (p *Pool) NextRelease() time.Time {
	if p.Cools.ends == nil || p.Cools.ends.Len() == 0 {
		return time.Time{}
	}
	first, _ := p.Cools.ends.Min()
	return time.UnixMilli(first.Until).UTC()
}

// LastRelease is when the last cooling block of the pool is free; zero if none cools.
func (p *Pool) LastRelease() time.Time {
	if p.Cools.ends == nil || p.Cools.ends.Len() == 0 {
		return time.Time{}
	}
	last, _ := p.Cools.ends.Max()
	return time.UnixMilli(last.Until).UTC()
}

// Released are the cooling blocks in the pool's window, the next to be free first.
func (p *Pool) Released() iter.Seq[deadline] {
	return func(yield func(deadline) bool) {
		if p.Cools.ends != nil {
			p.Cools.ends.Ascend(yield)
		}
	}
}

// FormerBlock finds the cooling block that a request gets back: it was the pool's and the
// class's, of an object of the same name, and is what the request asks for.
func (p *Pool) FormerBlock(r ledger.Request) (netip.Prefix, bool) {
	known := p.In.Cooling
	if len(known.Blocks) == 0 {
		return netip.Prefix{}, false
	}
	by := unique.Make(Owner{Pool: r.Pool, cluster: r.Holder.Cluster, class: r.Class, slice: r.Slice})
	for _, prefix := range known.former[formerOf(r.Holder)] {
		wanted := r.Exact == prefix || !r.Exact.IsValid() && r.Length == prefix.Bits()
		c := known.Blocks[prefix]
		if wanted && c.Owner == by && !c.taken && Contains(p.CIDR, prefix) && p.excludes(prefix) == nil {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

// coolingAt finds the cooling block that a prefix is, or lies in.
func (s *Space) coolingAt(p netip.Prefix) (prefix netip.Prefix, c Cooled, ok bool) {
	for bits := p.Bits(); bits >= 0 && len(s.Cooling.Blocks) > 0; bits-- {
		prefix = netip.PrefixFrom(p.Addr(), bits).Masked()
		if c, ok = s.Cooling.Blocks[prefix]; ok {
			return prefix, c, true
		}
	}
	return netip.Prefix{}, Cooled{}, false
}

// SetTaken notes that the group that is being placed gives a cooling block back, or that it has
// come to nothing.
func (s *Space) SetTaken(prefix netip.Prefix, taken bool) {
	if c, ok := s.Cooling.Blocks[prefix]; ok {
		c.taken = taken
		s.Cooling.Blocks[prefix] = c
	}
}

// Returned turns a cooling block into one of a holder, committed at the revision.
func (s *Space) Returned(by Owner, prefix netip.Prefix, revision int64) {
	if revision <= s.Known {
		return // the watch was faster
	}
	s.SetOwners(prefix, OwnersOf(store.Record{Holdings: []store.Holding{{Pool: by.Pool, Cluster: by.cluster, Class: by.class, Slice: by.slice}}}))
	s.uncool(prefix)
}
