package recover

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// random returns a block with a value in each field that blocks keeps.
func random(rng *rand.Rand, i int) ledger.Block {
	one := func(of ...string) string { return of[rng.IntN(len(of))] }
	id := uuid.UUID{0: byte(rng.Uint32()), 7: byte(i >> 8), 15: byte(i)}.String()
	switch {
	case i%7 == 0:
		id = one("w.", "uid-of-", strings.ToUpper(id[:8])) + fmt.Sprint(i)
	case i%7 < 3:
		id = string(promise.NewID("w", "default", fmt.Sprint(i)))
	}
	b := ledger.Block{
		Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32),
		Space:  ledger.SpaceID(one("s", "t")), Pool: ledger.PoolID(one("p", "q")),
		Holder: ledger.Holder{
			Claim: ledger.ClaimID(id), Cluster: ledger.ClusterName(one("w", "v")), Namespace: one("", "default", "n"),
			Name: one("", "a", strings.Repeat("n", 253), strings.Repeat("damaged", 100)) + fmt.Sprint(i),
		},
		Policy: ledger.ReclaimPolicy(one("Delete", "Retain")), State: ledger.BlockState(one("bound", "retained", "cooling")),
		BoundAt: time.UnixMilli(rng.Int64N(1 << 42)).UTC(), Revision: rng.Int64(),
	}
	if i%5 == 0 {
		b.Until = time.Unix(rng.Int64N(1<<33), 0).UTC()
	}
	if i%3 == 0 {
		b.Prefix = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 14: byte(i >> 8), 15: byte(i)}), 64+i%65)
	}
	return b
}

// blocks gives the same answers as a plain map of the blocks.
func TestBlocks_AgreeWithAMap(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var kept blocks
	plain, repeated := map[ledger.ClaimID]ledger.Block{}, map[int64]int64{}
	for i := range 3*page + 10 {
		b := random(rng, i)
		if i%100 == 99 { // a second block of a claim
			b.Holder.Claim = slices.Sorted(maps.Keys(plain))[rng.IntN(len(plain))]
		}
		kept.add(b)
		if first, there := plain[b.Holder.Claim]; there {
			repeated[b.Revision] = first.Revision
			continue
		}
		plain[b.Holder.Claim] = b
	}
	kept.seal(func(one, other ledger.Block) {
		if first, ok := repeated[one.Revision]; !ok || first != other.Revision {
			t.Errorf("%s of claim %s is said to come after %s", one.Prefix, one.Holder.Claim, other.Prefix)
		}
		delete(repeated, one.Revision)
	})
	if len(repeated) > 0 || kept.count != len(plain) {
		t.Errorf("%d blocks are kept, and %d second ones were not told; want %d and none", kept.count, len(repeated), len(plain))
	}
	for id, want := range plain {
		got := kept.of(id)
		if got == nil || got.Block != want {
			t.Fatalf("of(%s) = %+v, want %+v", id, got, want)
		}
		got.recorded = true
	}
	seen := 0
	for b := range kept.all() {
		if seen++; b.Block != plain[b.Holder.Claim] || !b.recorded {
			t.Fatalf("all yields %+v, want %+v with its mark", b, plain[b.Holder.Claim])
		}
	}
	if seen != len(plain) {
		t.Errorf("all yields %d blocks, want %d", seen, len(plain))
	}
	if missing := kept.of("no such claim"); missing != nil {
		t.Errorf("of a claim without a block = %+v, want none", missing)
	}
}

// A verification holds each block of the ledger in at most 100 bytes.
func TestBlocks_TakeLittleMemory(t *testing.T) {
	const n, most = 200_000, 100
	ids := rand.New(rand.NewPCG(3, 4))
	before, kept := heap(), &blocks{}
	for i := range n {
		kept.add(ledger.Block{
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32), Space: "space", Pool: "pool",
			Holder: ledger.Holder{
				Claim:   ledger.ClaimID(uuid.UUID{0: byte(ids.Uint32()), 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}.String()),
				Cluster: ledger.ClusterName(fmt.Sprint("cluster-", i%1000)), Namespace: "default", Name: fmt.Sprintf("claim-of-%d", i),
			},
			Policy: ledger.Delete, State: ledger.Bound, BoundAt: time.UnixMilli(int64(i)), Revision: int64(i),
		})
	}
	kept.seal(func(one, _ ledger.Block) { t.Fatalf("claim %s has two blocks", one.Holder.Claim) })
	if each := (heap() - before) / n; each > most {
		t.Errorf("a block takes %d bytes, want %d at most", each, most)
	} else {
		t.Logf("a block takes %d bytes", each)
	}
	runtime.KeepAlive(kept)
}

// heap returns how many bytes of the heap are in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Of two blocks of one claim the first is kept, also if neither has a name.
func TestBlocks_KeepTheFirstOfTwoBlocksWithoutAName(t *testing.T) {
	t.Parallel()
	var kept blocks
	rng := rand.New(rand.NewPCG(3, 4))
	const claims = 500
	for i := range 2 * claims {
		b := random(rng, 1+i/2)
		b.Holder.Claim, b.Holder.Name, b.Revision = ledger.ClaimID(fmt.Sprint("claim-", i/2)), "", int64(i)
		kept.add(b)
	}
	kept.seal(func(one, other ledger.Block) {
		if other.Revision%2 != 0 || one.Revision != other.Revision+1 {
			t.Errorf("of claim %s block %d is kept, and %d told", one.Holder.Claim, other.Revision, one.Revision)
		}
	})
	if kept.count != claims {
		t.Errorf("%d blocks are kept, want %d", kept.count, claims)
	}
}
