package space

import (
	"maps"
	"math/big"
	"net/netip"
	"testing"
	"unique"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

func held(pools ...ledger.PoolID) owners {
	r := store.Record{}
	for _, p := range pools {
		r.Holdings = append(r.Holdings, store.Holding{Pool: p, Cluster: "w", Class: "c"})
	}
	return ownersOf(r)
}

// A disputed block counts once for each pool that has it, and is gone with all of its owners.
func TestBlocks_Counted(t *testing.T) {
	b, prefix, other := newBlocks(), netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.0.1.0/24")
	b.put(other, held("p"))
	b.put(prefix, held("p", "q", "p", "q"))
	if b.Len() != 2 || b.count["p"] != 2 || b.count["q"] != 1 {
		t.Errorf("%d blocks, by pool %v; want 2; p has 2 and q 1", b.Len(), b.count)
	}
	old, ok := b.remove(prefix)
	if !ok || len(old.rivals) != 3 || b.count["p"] != 1 || b.count["q"] != 0 {
		t.Errorf("removed %v %v, by pool %v are left; want four owners, and one block of p", old, ok, b.count)
	}
	if _, again := b.remove(prefix); again || len(b.rivals) != 0 {
		t.Errorf("a block that is gone was removed again, or left its rivals behind: %v", b.rivals)
	}
}

// A block is on each account once, however many of its owners share it.
func TestOwners_Accounts(t *testing.T) {
	got := map[Account]int{}
	for _, a := range held("p", "q", "p").accounts() {
		got[a]++
	}
	want := map[Account]int{{pool: "p", Cluster: "w"}: 1, {pool: "q", Cluster: "w"}: 1, {Class: "c", Cluster: "w"}: 1}
	if !maps.Equal(got, want) {
		t.Errorf("accounts() = %v, want %v", got, want)
	}
}

// What leads from one reading to the next is what has changed, also of accounts that are gone.
func TestUsage_Until(t *testing.T) {
	a, b, c := Account{pool: "a"}, Account{pool: "b"}, Account{pool: "c"}
	was, now := usage{}, usage{}
	was.add(a, big.NewInt(4))
	was.add(b, big.NewInt(8))
	now.add(b, big.NewInt(3))
	now.add(c, big.NewInt(1))
	for account, change := range was.until(now) {
		was.add(account, change)
	}
	if len(was) != 2 || was.of(b).Int64() != 3 || was.of(c).Int64() != 1 {
		t.Errorf("the usage became %v, want %v", was, now)
	}
	was.of(b).SetInt64(100)
	if was.of(b).Int64() != 3 {
		t.Error("a caller changed the usage by what it was told of it")
	}
}

// What cools is found by its prefix, by what lies in it, and by its former holder, until it does
// not cool any longer.
func TestCooling_Found(t *testing.T) {
	var b coolingBlocks
	by := unique.Make(Owner{Pool: "p", cluster: "w", class: "c"})
	prefix := netip.MustParsePrefix("10.0.0.0/24")
	b.put(prefix, &Cooled{former: former{1}, Owner: by})
	if at, _, ok := b.at(netip.MustParsePrefix("10.0.0.16/28")); !ok || at != prefix {
		t.Errorf("at(10.0.0.16/28) = %v %v, want %v", at, ok, prefix)
	}
	if _, _, ok := b.at(netip.MustParsePrefix("10.0.0.0/23")); ok {
		t.Error("a prefix cools, though one half of it alone does")
	}
	account := Account{pool: "p", Cluster: "w"}
	if n := b.sums.of(account).Int64(); n != 256 || len(b.sums) != 1 {
		t.Errorf("%d addresses of the pool cool, in %d accounts; want 256 in the pool's alone", n, len(b.sums))
	}
	if _, cooled := b.remove(prefix); !cooled || len(b.Blocks)+len(b.former)+len(b.sums) != 0 {
		t.Errorf("something is left of a block that does not cool: %+v", b)
	}
}
