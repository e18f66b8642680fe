package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// listed collects a list.
func listed(t *testing.T, a *Allocator, o ListOptions) []ledger.Block {
	t.Helper()
	var blocks []ledger.Block
	for b, err := range a.List(t.Context(), o) {
		if err != nil {
			t.Fatalf("List(%+v): %v", o, err)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// A list shows one revision, whatever happens while its pages are read.
func TestList_ShowsOneRevision(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.pool("q", "10.1.0.0/24")
	var want, got []ledger.Block
	for _, pool := range []ledger.PoolID{"p", "q"} {
		for i := range 5 {
			want = append(want, l.bind(request(pool, fmt.Sprint(pool, i), 28)))
		}
	}
	l.store.Page = 3
	for b, err := range l.List(t.Context(), ListOptions{}) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		got = append(got, b)
		must.Do(t, l.Release(t.Context(), want[len(got)%10].Holder.Claim))
		l.bind(request("p", fmt.Sprint("new", len(got)), 30))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("List = %v\nwant   %v", got, want)
	}
}

func TestList_HasTheBlocksOfOnePool(t *testing.T) {
	l := newLedger(t)
	l.registerIn("a", "10.0.0.0/16")
	l.registerIn("b", "10.0.0.0/24")
	around := []ledger.Block{l.bind(request("a", "c0", 28))}
	inside := []ledger.Block{l.bind(request("b", "c1", 28))}
	around = append(around, l.bind(request("a", "c2", 28)))
	for id, want := range map[ledger.PoolID][]ledger.Block{"a": around, "b": inside} {
		if got := listed(t, l.Allocator, ListOptions{Pool: id}); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("List of %s = %v; want its own blocks %v", id, got, want)
		}
	}
	if got := listed(t, l.Allocator, ListOptions{Pool: "b", Limit: 1}); len(got) != 0 {
		t.Errorf("List of b = %v; want nothing, as the one block that it may read is another pool's", got)
	}
	for _, err := range l.List(t.Context(), ListOptions{Pool: "nowhere"}) {
		if !errors.Is(err, ledger.ErrUnknownPool) {
			t.Errorf("List of an unknown pool: %v; want %v", err, ledger.ErrUnknownPool)
		}
	}
}

// A list whose revision is compacted fails, and the next list begins again.
func TestList_SaysThatItsRevisionIsCompacted(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	for i := range 4 {
		l.bind(request("p", fmt.Sprint("c", i), 28))
	}
	l.store.Page = 2
	var failed error
	more := 0
	for _, err := range l.List(t.Context(), ListOptions{}) {
		if failed = err; err != nil {
			continue
		}
		more++
		b := l.bind(request("p", fmt.Sprint("more", more), 30))
		must.Get(l.etcd.Client().Compact(t.Context(), b.Revision))(t)
	}
	if !errors.Is(failed, ledger.ErrExpired) {
		t.Errorf("the list ended with %v; want %v", failed, ledger.ErrExpired)
	}
	if got := len(listed(t, l.Allocator, ListOptions{})); got < 5 {
		t.Errorf("the next list has %d blocks; want all", got)
	}
}

func TestCapacity_IsExactForIPv6(t *testing.T) {
	l := newLedger(t)
	p := root("p", "2001:db8::/32")
	p.Excluded = []netip.Prefix{prefix("2001:db8::/64")}
	must.Get(l.Pools().Register(t.Context(), p))(t)
	l.bind(request("p", "c", 128))
	c, ok := l.Pools().Capacity("p")
	got := fmt.Sprint(c.Total, " ", c.Allocated, " ", c.Available, " ", c.Blocks, " ", c.LargestFree, ok)
	if want := "79228162514264337593543950336 18446744073709551617 79228162495817593519834398719 1 33 true"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	free, ok := l.Pools().FreeBlocks("p") // all that lies beside a /64 and a /128
	if !ok || free[33] != 1 || free[64] != 0 || free[65] != 1 || free[128] != 1 {
		t.Error("free blocks by length:", free)
	}
	if _, ok := l.Pools().Capacity("q"); ok {
		t.Error("there is no such pool")
	}
	if _, ok := l.Pools().FreeBlocks("q"); ok {
		t.Error("there is no such pool")
	}
}

// A block that lies in several exclusions, or contains several, counts as one stranded block.
func TestCapacity_CountsAStrandedBlockOnce(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	for i, block := range []string{"10.0.0.0/27", "10.0.0.32/30", "10.0.0.40/32", "10.0.0.128/28"} {
		l.bind(exactly(request("p", fmt.Sprint(i), 0), block))
	}
	for want, list := range [][]string{
		{},
		{"10.0.0.0/31", "10.0.0.2/32", "10.0.0.9/32"},
		{"10.0.0.0/31", "10.0.0.2/32", "10.0.0.33/32"},
		{"10.0.0.0/31", "10.0.0.32/28", "10.0.0.32/30", "10.0.0.40/32"},
		{"10.0.0.0/24", "10.0.0.0/26", "10.0.0.128/32"},
	} {
		var excluded []netip.Prefix
		for _, x := range list {
			excluded = append(excluded, prefix(x))
		}
		must.Do(t, l.Pools().Exclude(t.Context(), "p", excluded))
		if c, _ := l.Pools().Capacity("p"); c.Stranded != want {
			t.Errorf("with %v excluded, %d blocks lie there; want %d", list, c.Stranded, want)
		}
	}
}

// The list of a pool begins behind a place, also if that place lies before the pool.
func TestList_BeginsAfterTheGivenPosition(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.pool("q", "10.1.0.0/24")
	first, second := l.bind(request("q", "c0", 28)), l.bind(request("q", "c1", 28))
	for name, tt := range map[string]struct {
		after ledger.Position
		want  []ledger.Block
	}{
		"of another pool": {ledger.Position{Space: "p", Prefix: netip.MustParsePrefix("10.0.0.0/28")}, []ledger.Block{first, second}},
		"the first block": {ledger.Position{Space: "q", Prefix: first.Prefix}, []ledger.Block{second}},
		"the last block":  {ledger.Position{Space: "q", Prefix: second.Prefix}, nil},
	} {
		if got := listed(t, l.Allocator, ListOptions{Pool: "q", After: tt.after}); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: List = %v, want %v", name, got, tt.want)
		}
	}
}

// ChangedBlocks returns each block that was written since the last call, as it is now.
func TestChangedBlocks_TellsEachBlockAsItIsNow(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.bind(request("p", "before", 28))
	l.wantChanged(nil)
	kept, gone := l.bind(request("p", "kept", 28)), l.bind(request("p", "gone", 28))
	retained := must.Get(l.Bind(t.Context(), request("p", "retained", 28)))(t)
	must.Do(t, l.Release(t.Context(), gone.Holder.Claim))
	if _, _, err := l.Retained().Retain(t.Context(), "retained", time.Time{}); err != nil {
		t.Fatalf("Retain: %v", err)
	}
	l.wantChanged(map[netip.Prefix]ledger.BlockState{kept.Prefix: ledger.Bound, gone.Prefix: "", retained.Prefix: ledger.Retained})
	l.wantChanged(nil)
}

// wantChanged fails the test unless exactly these blocks have changed; those without a state are gone.
func (l *fixture) wantChanged(want map[netip.Prefix]ledger.BlockState) {
	l.t.Helper()
	got := map[netip.Prefix]ledger.BlockState{}
	for at, b := range l.ChangedBlocks() {
		got[at.Prefix] = b.State
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("ChangedBlocks = %v, want %v", got, want)
	}
}
