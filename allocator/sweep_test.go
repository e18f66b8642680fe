package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
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

// A list shows one moment, whatever happens while its pages are read.
func TestList_AtOneRevision(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
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
		if err := l.Release(t.Context(), want[len(got)%10].Holder.Claim); err != nil {
			t.Fatalf("Release: %v", err)
		}
		l.bind(request("p", fmt.Sprint("new", len(got)), 30))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("List = %v\nwant   %v", got, want)
	}
}

func TestList_OfOnePool(t *testing.T) {
	l := newLedger(t)
	a, b := root("a", "10.0.0.0/16"), root("b", "10.0.0.0/24")
	a.Space, b.Space = "domain", "domain"
	for _, p := range []ledger.Pool{a, b} {
		if _, err := l.Pools().Register(t.Context(), p); err != nil {
			t.Fatalf("Register: %v", err)
		}
	}
	l.bind(request("a", "c0", 28))
	want := l.bind(request("b", "c1", 28))
	if got := listed(t, l.Allocator, ListOptions{Pool: "b"}); fmt.Sprint(got) != fmt.Sprint([]ledger.Block{want}) {
		t.Errorf("List of b = %v; want %v", got, want)
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

// A list whose revision is compacted says so, and the next one begins again.
func TestList_Expired(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
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
		if _, err := l.etcd.Client().Compact(t.Context(), b.Revision); err != nil {
			t.Fatalf("etcd Compact: %v", err)
		}
	}
	if !errors.Is(failed, ledger.ErrExpired) {
		t.Errorf("the list ended with %v; want %v", failed, ledger.ErrExpired)
	}
	if got := len(listed(t, l.Allocator, ListOptions{})); got < 5 {
		t.Errorf("the next list has %d blocks; want all", got)
	}
}

func TestCapacity(t *testing.T) {
	l := newLedger(t)
	p := root("p", "2001:db8::/32")
	p.Excluded = []netip.Prefix{prefix("2001:db8::/64")}
	if _, err := l.Pools().Register(t.Context(), p); err != nil {
		t.Fatalf("Register: %v", err)
	}
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
