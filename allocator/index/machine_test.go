package index_test

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/golden"
	"github.com/kcp-ipam/ipam/allocator/index"
)

var windows = []string{
	"10.0.0.0/24", "10.0.0.0/28", "10.1.0.0/16", "0.0.0.0/0", "192.0.2.7/32", "128.0.0.0/1",
	"2001:db8::/64", "2001:db8::/120", "::/0", "8000::/1", "2001:db8::1/128", "2001:db8::/63",
}

var all = []index.Strategy{index.FirstFit, index.BestFit, index.LeastUtilized}

// machine drives an index and its golden twin by the same steps.
type machine struct {
	index  *index.Index
	golden *golden.Index
	except []netip.Prefix // excluded at some time
}

func newMachine(window string) *machine {
	p := netip.MustParsePrefix(window)
	return &machine{index: index.New(p), golden: golden.New(p)}
}

// place says how a step picks a prefix: near a prefix that is there already, so that prefixes nest, touch and repeat
// even in ::/0.
type place struct {
	anchor byte // which prefix to start from; 0 is the window
	length byte // of the prefix, modulo what the family has
	flip   byte // which bit of the anchor's address to flip; 0 is none
}

func (m *machine) prefix(at place) netip.Prefix {
	anchors := slices.Concat([]netip.Prefix{m.golden.Window()}, slices.Collect(m.golden.Held()), m.except)
	addr := anchors[int(at.anchor)%len(anchors)].Addr()
	bytes := addr.AsSlice()
	if n := int(at.flip) % (addr.BitLen() + 1); n > 0 {
		bytes[(n-1)/8] ^= 0x80 >> ((n - 1) % 8)
	}
	addr, _ = netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, int(at.length)%(addr.BitLen()+1))
}

// inside picks a prefix as the method prefix does, and gives it a length that fits into the window.
func (m *machine) inside(at place) netip.Prefix {
	p, shortest := m.prefix(at), m.golden.Window().Bits()
	length := shortest + int(at.length)%(p.Addr().BitLen()-shortest+1)
	return netip.PrefixFrom(p.Addr(), length)
}

// again is the prefix of a held block.
func (m *machine) again(at place) netip.Prefix {
	held := slices.Collect(m.golden.Held())
	if len(held) == 0 {
		return m.golden.Window()
	}
	return held[int(at.anchor)%len(held)]
}

// excluded is a prefix that was excluded once, or the window.
func (m *machine) excluded(at place) netip.Prefix {
	if len(m.except) == 0 {
		return m.golden.Window()
	}
	return m.except[int(at.anchor)%len(m.except)]
}

// steps are what a caller can do to an index. The corpus of FuzzIndex names them
// by their place: append only.
var steps = []struct {
	name string
	do   func(*machine, place) error
}{
	{"Bind", (*machine).bind},
	{"Take", func(m *machine, at place) error { return m.take(m.inside(at)) }},
	{"TakeAnywhere", func(m *machine, at place) error { return m.take(m.prefix(at)) }},
	{"TakeAgain", func(m *machine, at place) error { return m.take(m.again(at)) }},
	{"Put", func(m *machine, at place) error { return m.put(m.again(at)) }},
	{"PutAnywhere", func(m *machine, at place) error { return m.put(m.prefix(at)) }},
	{"Exclude", func(m *machine, at place) error { return m.exclude(m.inside(at)) }},
	{"ExcludeHeld", func(m *machine, at place) error { return m.exclude(m.again(at)) }},
	{"ExcludeAnywhere", func(m *machine, at place) error { return m.exclude(m.prefix(at)) }},
	{"Include", func(m *machine, at place) error { return m.include(m.excluded(at)) }},
	{"IncludeAnywhere", func(m *machine, at place) error { return m.include(m.prefix(at)) }},
}

func (m *machine) bind(at place) error {
	length := m.inside(at).Bits()
	s := all[int(at.flip)%len(all)]
	p, ok := m.index.Find(length, s)
	want, wantOK := m.golden.Find(length, s)
	if p != want || ok != wantOK {
		return fmt.Errorf("Find(%d, %v) = %v, %t; want %v, %t", length, s, p, ok, want, wantOK)
	}
	if ok {
		return m.take(p)
	}
	return nil
}

func (m *machine) take(p netip.Prefix) error {
	m.index.Take(p)
	m.golden.Take(p)
	return m.compare(p)
}

func (m *machine) put(p netip.Prefix) error {
	if got, want := m.index.Put(p), m.golden.Put(p); got != want {
		return fmt.Errorf("Put(%v) = %t, want %t", p, got, want)
	}
	return m.compare(p)
}

func (m *machine) exclude(p netip.Prefix) error {
	m.except = append(m.except, p)
	m.index.Exclude(p)
	m.golden.Exclude(p)
	return m.compare(p)
}

func (m *machine) include(p netip.Prefix) error {
	if got, want := m.index.Include(p), m.golden.Include(p); got != want {
		return fmt.Errorf("Include(%v) = %t, want %t", p, got, want)
	}
	return m.compare(p)
}

// compare compares all that the twins can be asked, around p.
func (m *machine) compare(p netip.Prefix) error {
	if got, want := m.index.Histogram(), m.golden.Histogram(); got != want {
		return fmt.Errorf("after %v: histogram %v, want %v", p, got, want)
	}
	if got, want := m.index.Available(), m.golden.Available(); got.Cmp(want) != 0 {
		return fmt.Errorf("after %v: %v available, want %v", p, got, want)
	}
	got, ok := m.index.Largest()
	want, wantOK := m.golden.Largest()
	if got != want || ok != wantOK {
		return fmt.Errorf("after %v: largest %d, %t; want %d, %t", p, got, ok, want, wantOK)
	}
	if err := m.compareBlocks(p); err != nil {
		return err
	}
	if err := m.compareFind(p, p.Bits()); err != nil {
		return err
	}
	if err := m.compareFind(p, p.Addr().BitLen()); err != nil {
		return err
	}
	return m.index.Check()
}

func (m *machine) compareBlocks(p netip.Prefix) error {
	if got, want := m.index.Blocks(), m.golden.Blocks(); got != want {
		return fmt.Errorf("after %v: %d blocks, want %d", p, got, want)
	}
	for q := range m.golden.FreeBlocks() { // as many as the index has, by the histogram
		if !m.index.Free(q) {
			return fmt.Errorf("after %v: %v is not free", p, q)
		}
	}
	for q := range m.golden.Held() {
		if got, want := m.index.Overlapping(q), m.golden.Overlapping(q); got != want {
			return fmt.Errorf("after %v: Overlapping(%v) = %d, want %d", p, q, got, want)
		}
	}
	for bits := range p.Addr().BitLen() + 1 {
		q := netip.PrefixFrom(p.Addr(), bits)
		if got, want := m.index.Free(q), m.golden.Free(q); got != want {
			return fmt.Errorf("Free(%v) = %t, want %t", q, got, want)
		}
		if got, want := m.index.Overlapping(q), m.golden.Overlapping(q); got != want {
			return fmt.Errorf("Overlapping(%v) = %d, want %d", q, got, want)
		}
	}
	return nil
}

func (m *machine) compareFind(p netip.Prefix, length int) error {
	for _, s := range all {
		got, ok := m.index.Find(length, s)
		want, wantOK := m.golden.Find(length, s)
		if got != want || ok != wantOK {
			return fmt.Errorf("after %v: Find(%d, %v) = %v, %t; want %v, %t", p, length, s, got, ok, want, wantOK)
		}
	}
	return nil
}
