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

// former identifies the former holder of a cooling block: a hash of workspace, namespace and
// name. There may be many cooling blocks, so the names themselves are not kept.
type former [16]byte

// formerOf returns the hash of a holder. A later object of the same name has the same hash.
func formerOf(h ledger.Holder) former {
	sum := sha256.Sum256([]byte(string(h.Cluster) + "\x00" + h.Namespace + "\x00" + h.Name))
	return former(sum[:16])
}

// Cooled is a cooling block, as a space knows it.
type Cooled struct {
	until  int64 // in milliseconds of the wall clock
	freed  int64 // when it was freed, in milliseconds, too; 0: unknown
	Claim  ledger.ClaimID
	former former
	Owner  unique.Handle[Owner]
	At     int64 // revision of the block's last change
}

// End returns the time at which the cooldown ends.
func (c *Cooled) End() time.Time { return time.UnixMilli(c.until).UTC() }

// Freed returns when the block began to cool; zero if that is not known.
func (c *Cooled) Freed() time.Time {
	if c.freed == 0 {
		return time.Time{}
	}
	return time.UnixMilli(c.freed).UTC()
}

// CooledOf returns the cooling block of a record; nil if the block does not cool.
func CooledOf(r store.Record) *Cooled {
	h := r.Held
	if h.State != ledger.Cooling {
		return nil
	}
	freed := int64(0)
	if !h.Since.IsZero() {
		freed = h.Since.UnixMilli()
	}
	return &Cooled{
		until: h.Until.UnixMilli(), freed: freed, Claim: ledger.ClaimID(strings.Clone(string(h.Claim))),
		former: formerOf(ledger.Holder{Cluster: h.Cluster, Namespace: h.Namespace, Name: h.Name}),
		Owner:  unique.Make(OwnerOf(*h)), At: r.Revision,
	}
}

// coolingBlocks are the cooling blocks of one space. The zero value is empty. The space's lock
// guards it.
type coolingBlocks struct {
	Blocks map[netip.Prefix]*Cooled
	former map[former][]netip.Prefix
	sums   usage // how many addresses cool, on each account with a pool
}

// put notes that a block begins to cool.
func (b *coolingBlocks) put(prefix netip.Prefix, c *Cooled) {
	if b.Blocks == nil {
		b.Blocks, b.former, b.sums = map[netip.Prefix]*Cooled{}, map[former][]netip.Prefix{}, usage{}
	}
	b.Blocks[prefix] = c
	b.former[c.former] = append(b.former[c.former], prefix)
	b.count(c, cidr.Size(prefix))
}

// remove notes that a block does not cool any more. cooled is false if it did not cool.
func (b *coolingBlocks) remove(prefix netip.Prefix) (c *Cooled, cooled bool) {
	if c, cooled = b.Blocks[prefix]; !cooled {
		return nil, false
	}
	delete(b.Blocks, prefix)
	rest := slices.DeleteFunc(b.former[c.former], func(p netip.Prefix) bool { return p == prefix })
	if b.former[c.former] = rest; len(rest) == 0 {
		delete(b.former, c.former)
	}
	size := cidr.Size(prefix)
	b.count(c, size.Neg(size))
	return c, true
}

// count adds to the cooling addresses on a workspace's account with the pool. It does not count accounts with classes,
// because these extend over many spaces.
func (b *coolingBlocks) count(c *Cooled, n *big.Int) {
	for a := range c.Owner.Value().accounts() {
		if a.pool != "" {
			b.sums.add(a, n)
		}
	}
}

// at finds the cooling block that contains a prefix.
func (b *coolingBlocks) at(p netip.Prefix) (prefix netip.Prefix, c *Cooled, ok bool) {
	for bits := p.Bits(); bits >= 0 && len(b.Blocks) > 0; bits-- {
		prefix = netip.PrefixFrom(p.Addr(), bits).Masked()
		if c, ok = b.Blocks[prefix]; ok {
			return prefix, c, true
		}
	}
	return netip.Prefix{}, nil, false
}

// deadline says when a cooling block is free.
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

// coolingWindow has the cooling blocks in the window of one pool: the sum of their addresses, and the end of each
// cooldown. The zero value is empty.
type coolingWindow struct {
	ends *btree.BTreeG[deadline]
	sum  big.Int
	Own  int // how many of them are blocks of the pool itself
}

// Next returns when the next cooling block is free; zero if none cools.
func (w *coolingWindow) Next() time.Time {
	if w.ends == nil || w.ends.Len() == 0 {
		return time.Time{}
	}
	first, _ := w.ends.Min()
	return time.UnixMilli(first.Until).UTC()
}

// Last returns when the last cooling block is free; zero if none cools.
func (w *coolingWindow) Last() time.Time {
	if w.ends == nil || w.ends.Len() == 0 {
		return time.Time{}
	}
	last, _ := w.ends.Max()
	return time.UnixMilli(last.Until).UTC()
}

// All yields the cooling blocks, the next to be free first.
func (w *coolingWindow) All() iter.Seq[deadline] {
	return func(yield func(deadline) bool) {
		if w.ends != nil {
			w.ends.Ascend(yield)
		}
	}
}
