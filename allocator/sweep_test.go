package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
)

// A list shows one moment, whatever happens while its pages are read.
func TestList_PagesAtOneRevision(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	l.pool("q", "10.1.0.0/24")
	var want []Block
	for i := range 5 {
		want = append(want, l.bind(request("p", fmt.Sprint("p", i), 28)))
	}
	for i := range 5 {
		want = append(want, l.bind(request("q", fmt.Sprint("q", i), 28)))
	}
	var got []Block
	o := ListOptions{Limit: 3}
	for {
		page, err := l.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page.Blocks...)
		if page.Continue == "" {
			break
		}
		o.Continue = page.Continue
		if err := l.Release(t.Context(), want[len(got)%10].Holder.Claim); err != nil {
			t.Fatal(err)
		}
		l.bind(request("p", "new after "+o.Continue, 28))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestList_OfOnePool(t *testing.T) {
	l := newLedger(t)
	a, b := root("a", "10.0.0.0/16"), root("b", "10.0.0.0/24")
	a.Space, b.Space = "domain", "domain"
	for _, p := range []Pool{a, b} {
		if _, err := l.Register(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	l.bind(request("a", "c0", 28))
	want := l.bind(request("b", "c1", 28))
	page, err := l.List(t.Context(), ListOptions{Pool: "b"})
	if err != nil || page.Continue != "" || len(page.Blocks) != 1 || page.Blocks[0] != want {
		t.Error(page, err)
	}
	if _, err := l.List(t.Context(), ListOptions{Pool: "nowhere"}); !errors.Is(err, ErrUnknownPool) {
		t.Error(err)
	}
	if _, err := l.List(t.Context(), ListOptions{Continue: "nonsense"}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

func TestList_Expired(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	for i := range 3 {
		l.bind(request("p", fmt.Sprint("c", i), 28))
	}
	page, err := l.List(t.Context(), ListOptions{Limit: 2})
	if err != nil || page.Continue == "" {
		t.Fatal(page, err)
	}
	b := l.bind(request("p", "later", 28))
	if _, err := l.etcd.Client().Compact(t.Context(), b.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err := l.List(t.Context(), ListOptions{Continue: page.Continue}); !errors.Is(err, ErrExpired) {
		t.Error(err)
	}
}

func TestCapacity(t *testing.T) {
	l := newLedger(t)
	p := root("p", "2001:db8::/32")
	p.Excluded = []netip.Prefix{prefix("2001:db8::/64")}
	if _, err := l.Register(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	l.bind(request("p", "c", 128))
	c, ok := l.Capacity("p")
	got := fmt.Sprint(c.Total, " ", c.Allocated, " ", c.Available, " ", c.Blocks, " ", c.LargestFree, ok)
	if want := "79228162514264337593543950336 18446744073709551617 79228162495817593519834398719 1 33 true"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	free, ok := l.FreeBlocks("p") // all that lies beside a /64 and a /128
	if !ok || free[33] != 1 || free[64] != 0 || free[65] != 1 || free[128] != 1 {
		t.Error("free blocks by length:", free)
	}
	if _, ok := l.Capacity("q"); ok {
		t.Error("there is no such pool")
	}
	if _, ok := l.FreeBlocks("q"); ok {
		t.Error("there is no such pool")
	}
}
