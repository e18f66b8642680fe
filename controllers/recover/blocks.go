package recover

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"iter"
	"net/netip"
	"sort"
	"time"
	"unique"

	"github.com/google/uuid"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// block is a block of the ledger, with its marks.
type block struct {
	ledger.Block // without the fields that verify does not compare
	*marks
}

// marks note what one comparison has found about a block.
type marks struct {
	keyed    bool // the claim's key leads to it
	held     bool // its holder exists
	leaving  bool // its holder is being deleted
	recorded bool // its IPAllocation exists
}

// blocks holds the blocks of the ledger, by claim. A block takes 80 bytes plus the name of its holder. What many blocks
// have in common is stored once: see lot. Call add for each block, then seal, and only then blocks.of and blocks.all.
// The zero value is empty.
type blocks struct {
	count   int
	entries [][]entry                   // pages; all except the last are full
	names   [][]byte                    // in the order of the entries; no name is cut in two
	odd     map[identity]ledger.ClaimID // claims whose ID is not written like a UID
}

// page is the number of entries, and of bytes of names, that are allocated at a time.
const page = 1 << 12

// entry is one block.
type entry struct {
	claim    identity
	addr     [16]byte
	revision int64
	bound    int64  // milliseconds
	until    int64  // milliseconds; 0: the state does not end by itself
	name     uint32 // offset of the name in names: its page times the page size, plus its byte
	lot      unique.Handle[lot]
	marks    marks
	length   uint8 // of the name
	bits     uint8 // of the prefix
}

// lot is what many blocks have in common.
type lot struct {
	space      ledger.SpaceID
	pool       ledger.PoolID
	cluster    ledger.ClusterName
	namespace  string
	policy     ledger.ReclaimPolicy
	state      ledger.BlockState
	four, long bool // four: the prefix is IPv4; long: name is in the lot
	name       string
}

// identity is a claim's ID: a UID, or the digest of an ID in another form.
type identity = uuid.UUID

// identify returns the identity of a claim's ID. odd is true if the ID cannot be derived from the identity.
func identify(id ledger.ClaimID) (of identity, odd bool) {
	if uid, err := uuid.Parse(string(id)); err == nil && uid.String() == string(id) {
		return uid, false
	}
	sum := sha256.Sum256([]byte(id))
	return identity(sum[:16]), true
}

// add adds a block.
func (s *blocks) add(b ledger.Block) {
	claim, odd := identify(b.Holder.Claim)
	if odd && s.odd == nil {
		s.odd = map[identity]ledger.ClaimID{}
	}
	if odd {
		s.odd[claim] = b.Holder.Claim
	}
	e := entry{
		claim: claim, addr: b.Prefix.Addr().As16(), bits: uint8(b.Prefix.Bits()), revision: b.Revision,
		bound: b.BoundAt.UnixMilli(),
	}
	of := lot{
		space: b.Space, pool: b.Pool, cluster: b.Holder.Cluster, namespace: b.Holder.Namespace,
		policy: b.Policy, state: b.State,
		four: b.Prefix.Addr().Is4(),
	}
	name := b.Holder.Name
	if len(name) > 255 { // no object has such a name, but the ledger is what is verified
		of.long, of.name, name = true, name, ""
	}
	e.lot, e.name, e.length = unique.Make(of), s.keep(name), uint8(len(name))
	if !b.Until.IsZero() {
		e.until = b.Until.UnixMilli()
	}
	if s.count%page == 0 {
		s.entries = append(s.entries, make([]entry, 0, page))
	}
	last := len(s.entries) - 1
	s.entries[last] = append(s.entries[last], e)
	s.count++
}

// keep stores a name, and returns its offset in names. Each offset is higher than the one before, so the offsets tell
// seal which block was added first. That is why an empty name takes a byte, too.
func (s *blocks) keep(name string) uint32 {
	last := len(s.names) - 1
	if last < 0 || len(s.names[last])+len(name) >= page-1 {
		s.names, last = append(s.names, make([]byte, 0, page)), last+1
	}
	at := len(s.names[last])
	s.names[last] = append(s.names[last], cmp.Or(name, "-")...)
	return uint32(last*page + at)
}

// seal sorts the blocks by claim, for the binary search of blocks.of. If a claim has several blocks, seal keeps the one
// that was added first. For each other block of the claim it calls its argument: again(that block, the kept one).
func (s *blocks) seal(again func(one, other ledger.Block)) {
	sort.Sort(byClaim{s})
	kept := 0
	for i := range s.count {
		e := s.at(i)
		if kept > 0 && s.at(kept-1).claim == e.claim {
			again(s.whole(e), s.whole(s.at(kept-1)))
			continue
		}
		*s.at(kept) = *e
		kept++
	}
	s.count = kept
}

func (s *blocks) at(i int) *entry { return &s.entries[i/page][i%page] }

// of returns the block of a claim, or nil.
func (s *blocks) of(id ledger.ClaimID) *block {
	claim, _ := identify(id)
	i := sort.Search(s.count, func(i int) bool { return bytes.Compare(s.at(i).claim[:], claim[:]) >= 0 })
	if i == s.count || s.at(i).claim != claim {
		return nil
	}
	return &block{s.whole(s.at(i)), &s.at(i).marks}
}

// all yields all blocks. A yielded block is valid until the next one is yielded.
func (s *blocks) all() iter.Seq[*block] {
	return func(yield func(*block) bool) {
		var b block
		for i := range s.count {
			b = block{s.whole(s.at(i)), &s.at(i).marks}
			if !yield(&b) {
				return
			}
		}
	}
}

// whole returns a block as it was added, without the fields that verify does not compare.
func (s *blocks) whole(e *entry) ledger.Block {
	of := e.lot.Value()
	claim, odd := s.odd[e.claim]
	if !odd {
		claim = ledger.ClaimID(e.claim.String())
	}
	name := of.name
	if !of.long {
		at := e.name % page
		name = string(s.names[e.name/page][at : at+uint32(e.length)])
	}
	addr := netip.AddrFrom16(e.addr)
	if of.four {
		addr = addr.Unmap()
	}
	b := ledger.Block{
		Prefix: netip.PrefixFrom(addr, int(e.bits)), Space: of.space, Pool: of.pool,
		Holder: ledger.Holder{Claim: claim, Cluster: of.cluster, Namespace: of.namespace, Name: name},
		Policy: of.policy, State: of.state,
		BoundAt: time.UnixMilli(e.bound).UTC(), Revision: e.revision,
	}
	if e.until != 0 {
		b.Until = time.UnixMilli(e.until).UTC()
	}
	return b
}

// byClaim sorts entries by claim, and the entries of one claim in the order in which they were added.
type byClaim struct{ *blocks }

func (s byClaim) Len() int      { return s.count }
func (s byClaim) Swap(i, j int) { a, b := s.at(i), s.at(j); *a, *b = *b, *a }
func (s byClaim) Less(i, j int) bool {
	a, b := s.at(i), s.at(j)
	return cmp.Or(bytes.Compare(a.claim[:], b.claim[:]), cmp.Compare(a.name, b.name)) < 0
}
