package recover

import (
	"context"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// books hold the ledger at one revision, and the findings on it.
type books struct {
	revision int64
	pools    map[ledger.PoolID]*booked
	held     map[ledger.ClaimID]*booked  // the pools of ranges, by the claim that holds each
	apart    map[ledger.PoolID][]*booked // the address spaces of each pool; see fullest
	spaces   map[ledger.SpaceID]*space
	blocks   blocks
	sealed   bool // all blocks were read
	findings []Finding

	// unread has the blocks that cannot be read, and hidden the claims whose keys point to them. Such a block is
	// neither present nor missing, so nothing is concluded about its claim.
	unread map[position]bool
	hidden map[ledger.ClaimID]bool

	now    time.Time                  // when the comparison began
	bucket netip.Prefix               // the bucket of the history that was read last
	past   map[position]ledger.Tenure // the latest tenure of each block, in this bucket
}

// position is where a block lies.
type position struct {
	space  ledger.SpaceID
	prefix netip.Prefix
}

// booked is a pool of the ledger, with the facts that the audit and the join have noted about it.
type booked struct {
	ledger.Pool
	taken *big.Int // addresses that are in a block or excluded
	seen  bool     // its IPPool exists
	kept  bool     // the claim that holds it exists
	lived bool     // a block of it is not cooling
}

// space is the state of a space while its blocks are read, in the order of their keys.
type space struct {
	pools []*booked
	last  ledger.Block // the last block that no earlier block contains
	used  bool
	head  bool
}

// newBooks returns empty books for a comparison that begins at now.
func newBooks(now time.Time) *books {
	return &books{
		now: now, pools: map[ledger.PoolID]*booked{}, held: map[ledger.ClaimID]*booked{},
		apart: map[ledger.PoolID][]*booked{}, spaces: map[ledger.SpaceID]*space{}, unread: map[position]bool{},
		hidden: map[ledger.ClaimID]bool{}, past: map[position]ledger.Tenure{},
	}
}

// audit reads the whole ledger, and finds the faults that show without the objects.
func audit(ctx context.Context, in Ledger, now time.Time) (*books, error) {
	b := newBooks(now)
	var err error
	b.revision, err = in.Walk(ctx, ledger.Visitor{
		Pool: b.addPool, Block: b.addBlock, Claim: b.addClaim, Unread: b.addUnread, Tenure: b.addTenure,
		Head:    func(id ledger.SpaceID) { b.space(id).head = true },
		Damaged: func(key string, err error) { b.find(Finding{Kind: Unreadable, Name: key, Message: err.Error()}) },
	})
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	b.close()
	return b, nil
}

func (b *books) find(f Finding) { b.findings = append(b.findings, f) }

func (b *books) space(id ledger.SpaceID) *space {
	s := b.spaces[id]
	if s == nil {
		s = &space{}
		b.spaces[id] = s
	}
	return s
}

func (b *books) addPool(p ledger.Pool) {
	added := &booked{Pool: p, taken: new(big.Int)}
	for _, x := range p.Excluded {
		added.taken.Add(added.taken, cidr.Size(x))
	}
	b.pools[p.ID] = added
	if of, is := ledger.AddressSpaceOf(p.ID); is {
		b.apart[of] = append(b.apart[of], added)
	}
	if p.Derived != nil && p.Derived.Holder.Claim != "" {
		b.held[p.Derived.Holder.Claim] = added
	}
	s := b.space(p.Space)
	s.pools, s.used = append(s.pools, added), true
}

func (b *books) addBlock(added ledger.Block) {
	s := b.space(added.Space)
	s.used = true
	b.place(s, added)
	if p := b.pools[added.Pool]; p == nil {
		b.find(about(BlockOutsidePool, added, "pool %s is not registered", added.Pool))
	} else if p.Space != added.Space || !contains(p.CIDR, added.Prefix) {
		b.find(about(BlockOutsidePool, added, "the block is in space %s, and its pool %s is %s of space %s",
			added.Space, p.Name, p.CIDR, p.Space))
	} else if added.State != ledger.Cooling {
		p.lived = true
	}
	b.blocks.add(added)
}

// seal makes the blocks searchable, when all were added, and finds claims with several blocks. Later calls do nothing.
func (b *books) seal() {
	if b.sealed {
		return
	}
	b.sealed = true
	b.blocks.seal(func(one, other ledger.Block) {
		b.find(about(SeveralBlocks, one, "the claim has %s as well", other.Prefix))
	})
}

// addUnread counts the addresses of a block that cannot be read. Only its space and prefix are known.
func (b *books) addUnread(in ledger.SpaceID, prefix netip.Prefix) {
	s := b.space(in)
	s.used = true
	b.unread[position{in, prefix}] = true
	b.place(s, ledger.Block{Space: in, Prefix: prefix})
}

// place counts a block in the pools of its space. If an earlier block contains it, place reports an overlap instead. It
// compares the block with one earlier block alone: two prefixes overlap only if one contains the other, and keys sort
// by address, the containing prefix first.
func (b *books) place(s *space, added ledger.Block) {
	if !s.last.Prefix.IsValid() || !contains(s.last.Prefix, added.Prefix) {
		s.last = added
		for _, p := range s.pools {
			p.take(added.Prefix)
		}
		return
	}
	b.find(about(OverlappingBlocks, added, "%s of claim %s overlaps it", s.last.Prefix, s.last.Holder.Claim))
}

// take counts the addresses of a block that lie in the pool and are not excluded. No earlier block overlaps it.
func (p *booked) take(prefix netip.Prefix) {
	if !p.CIDR.Overlaps(prefix) {
		return
	}
	prefix = cidr.Narrower(p.CIDR, prefix)
	taken := cidr.Size(prefix)
	for _, x := range p.Excluded {
		if x.Overlaps(prefix) {
			taken.Sub(taken, cidr.Size(cidr.Narrower(x, prefix)))
		}
	}
	p.taken.Add(p.taken, taken)
}

func (b *books) addClaim(id ledger.ClaimID, in ledger.SpaceID, prefix netip.Prefix) {
	if b.unread[position{in, prefix}] {
		b.hidden[id] = true
		return
	}
	b.seal()
	held := b.blocks.of(id)
	if held == nil || held.Space != in || held.Prefix != prefix {
		b.find(Finding{
			Kind: ClaimKeyMismatch, UID: string(id), Prefix: prefix.String(),
			Message: fmt.Sprintf("the claim's key leads to space %s, where it has no such block", in),
		})
		return
	}
	held.keyed = true
}

// close finds the faults that show only when the whole ledger was read.
func (b *books) close() {
	b.seal()
	for id, s := range b.spaces {
		if s.used && !s.head {
			b.find(Finding{
				Kind: SpaceWithoutHead, Name: string(id), Message: "the space has no head, so that nothing can be changed in it",
			})
		}
	}
	for held := range b.blocks.all() {
		if !held.keyed {
			b.find(about(ClaimKeyMismatch, held.Block, "no key of the claim leads to the block"))
		}
	}
	roots := map[ledger.ClusterName][]*booked{}
	for _, p := range b.pools {
		if ledger.IsAddressSpace(p.ID) {
			continue // its CIDR is that of its pool, which is checked
		}
		if p.Parent == "" {
			roots[p.Cluster] = append(roots[p.Cluster], p)
			continue
		}
		held := b.blocks.of(ledger.ClaimID(p.ID))
		if b.hidden[ledger.ClaimID(p.ID)] {
			continue
		}
		if held == nil || held.Pool != p.Parent || held.Prefix != p.CIDR {
			b.find(aboutPool(ChildWithoutBlock, p.Pool, "its parent %s has no block of that prefix for it", p.Parent))
		}
	}
	for _, pools := range roots {
		b.compareRoots(pools)
	}
}

// compareRoots finds root pools of one workspace that overlap across spaces.
func (b *books) compareRoots(pools []*booked) {
	slices.SortFunc(pools, func(a, b *booked) int { return a.CIDR.Compare(b.CIDR) })
	for i, p := range pools {
		for _, other := range pools[i+1:] {
			if !contains(p.CIDR, other.CIDR) {
				break
			}
			if p.Space != other.Space {
				b.find(aboutPool(OverlappingPools, other.Pool, "pool %s, %s, overlaps it", p.Name, p.CIDR))
			}
		}
	}
}

// capacity returns the figures that the IPPool of a pool should show. If the pool has address spaces, the figures are
// those of the fullest address space.
func (b *books) capacity(p *booked) (total, allocated, available string) {
	all, taken := cidr.Size(p.CIDR), p.taken
	if fullest := b.fullest(p); fullest != nil {
		taken = fullest.taken
	}
	return all.String(), taken.String(), new(big.Int).Sub(all, taken).String()
}

func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// skew is the most by which the clocks of replicas may differ: a tenure begins by the clock of the replica
// that bound the block, and ends by the clock of the one that released it.
const skew = time.Minute

// addTenure reports a tenure that ends in the future, or that overlaps the previous tenure of the same block. Tenures
// come bucket by bucket; within a bucket, the tenures of one block come in the order of time.
func (b *books) addTenure(t ledger.Tenure) {
	if t.Bucket() != b.bucket {
		clear(b.past)
		b.bucket = t.Bucket()
	}
	at := position{t.Space, t.Prefix}
	last, again := b.past[at]
	b.past[at] = t
	if t.Until.After(b.now.Add(skew)) {
		b.find(aboutTenure(t, "its end, %s, is in the future", when(t.Until)))
	}
	if again && last.Overlaps(t, skew) {
		b.find(aboutTenure(t, "it begins at %s, and that of claim %s, %s/%s, ends at %s", when(t.From),
			last.Holder.Claim, last.Holder.Namespace, last.Holder.Name, when(last.Until)))
	}
}

// aboutTenure begins a finding on a record of the history.
func aboutTenure(t ledger.Tenure, format string, args ...any) Finding {
	return about(HistoryMismatch, ledger.Block{Prefix: t.Prefix, Holder: t.Holder, Revision: t.Revision}, format, args...)
}

var _ catalog.Pools = (*books)(nil)

// Get implements catalog.Pools.
func (b *books) Get(id ledger.PoolID) (ledger.Pool, bool) {
	p := b.pools[id]
	if p == nil {
		return ledger.Pool{}, false
	}
	return p.Pool, true
}

// fullest returns the address space of a pool in which most addresses are taken, or nil if the pool has no address
// spaces.
func (b *books) fullest(of *booked) (fullest *booked) {
	for _, p := range b.apart[of.ID] {
		if fullest == nil || p.taken.Cmp(fullest.taken) > 0 {
			fullest = p
		}
	}
	return fullest
}
