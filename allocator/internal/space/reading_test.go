package space

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A space that was read knows the same owners and sums as one that has seen each block come.
func TestReading_CountsAsOneByOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noted, _, _ := tight(t)
	read := NewReading(noted.Table, "s")
	read.putPool(noted.Room.Pools[0].Pool)
	for i := range 500 {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24+random.IntN(9))
		r := store.Record{Holdings: []store.Holding{someHolding(random)}}
		if random.IntN(10) == 0 {
			r.Disputed, r.Holdings = true, append(r.Holdings, someHolding(random))
		}
		noted.note(prefix, r)
		read.note(prefix, r)
	}
	replaced, _, _ := tight(t)
	replaced.ReplaceBy(read)
	if got, want := replaced.Blocks.Len(), noted.Blocks.Len(); got != want || len(replaced.usage) != len(noted.usage) {
		t.Errorf("%d blocks on %d accounts were read; want %d on %d", got, len(replaced.usage), want, len(noted.usage))
	}
	for a, want := range noted.usage {
		if got := replaced.usage.of(a); got.Cmp(want) != 0 {
			t.Errorf("%v addresses on %v were read, want %v", got, a, want)
		}
	}
	if !reflect.DeepEqual(replaced.Blocks.count, noted.Blocks.count) {
		t.Errorf("blocks of each pool as read: %v, want %v", replaced.Blocks.count, noted.Blocks.count)
	}
}

// someHolding returns one of a few owners, often of the same.
func someHolding(random *rand.Rand) store.Holding {
	h := store.Holding{Pool: "p", Claim: ledger.ClaimID(fmt.Sprint("c", random.IntN(1000))), Cluster: "w", Name: "n", State: ledger.Bound}
	switch random.IntN(6) {
	case 0:
		h.Pool = "q"
	case 1:
		h.Cluster = "v"
	case 2:
		h.Class = "gold"
	case 3:
		h.Slice = true
	}
	return h
}
