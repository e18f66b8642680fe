package draw_test

import (
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page/draw"
	"github.com/kcp-ipam/ipam/test/must"
)

var update = flag.Bool("update", false, "write the golden files again")

func block(prefix string, kind draw.Kind, label string) draw.Block {
	return draw.Block{Prefix: netip.MustParsePrefix(prefix), Kind: kind, Label: label}
}

// office returns a map that has a block of each kind.
func office() draw.Map {
	m := draw.Map{Window: netip.MustParsePrefix("192.0.2.0/24"), Blocks: []draw.Block{
		block("192.0.2.0/28", draw.Kept, ""), block("192.0.2.240/28", draw.Kept, ""),
		block("192.0.2.16/28", draw.Own, "claim default/web"), block("192.0.2.32/27", draw.Foreign, "claim default/db of root:team-b"),
		block("192.0.2.64/26", draw.Child, "pool rack"), block("192.0.2.128/29", draw.Retained, "retained for default/old"),
		block("192.0.2.160/27", draw.Planned, "the plan"),
	}}
	draw.Sort(m.Blocks)
	return m
}

// linked returns the shape of a box whose name and link are its prefix.
func linked(box draw.Box) draw.Shape {
	return draw.Shape{Link: "/pool/lab?block=" + box.Prefix.String(), Name: box.Prefix.String() + ", " + box.Kind.String(), Picked: box.Prefix.Bits() == 26}
}

func TestFigure_MatchesItsPictures(t *testing.T) {
	t.Parallel()
	shared := office()
	shared.Rest = draw.Unseen
	crowded := draw.Map{Window: netip.MustParsePrefix("10.0.0.0/8"), Limit: 12}
	for i := range 40 {
		crowded.Blocks = append(crowded.Blocks, block(fmt.Sprintf("10.%d.0.0/17", i*3), draw.Own, "claim"))
	}
	zoomed := office()
	zoomed.Window = netip.MustParsePrefix("192.0.2.96/27")
	hostile := draw.Map{Window: netip.MustParsePrefix("2001:db8::/32"), Blocks: []draw.Block{
		block("2001:db8::/33", draw.Own, `"><script>alert(1)</script>`), block("2001:db8:8000::/33", draw.Foreign, "\u202e"+strings.Repeat("ש", 250)),
	}}
	for name, m := range map[string]draw.Map{
		"office": office(), "shared": shared, "crowded": crowded, "zoomed": zoomed, "hostile": hostile,
		"empty": {Window: netip.MustParsePrefix("10.64.0.0/12")}, "address": {Window: netip.MustParsePrefix("192.0.2.7/32")},
	} {
		got := must.Get(m.Figure("Pool "+name, "A map", linked).SVG())(t)
		golden(t, name, string(got))
	}
	plain := must.Get(office().Figure("Pool office", "A map", nil).SVG())(t)
	golden(t, "plain", string(plain))
}

// golden fails the test unless a picture is that in its file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".svg")
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(file))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it again:\n%s", file, diff)
	}
}

// The boxes of a map cover each address of the window once. There are no more boxes than the limit allows.
func TestBoxes_CoverTheWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		for _, window := range []string{"10.0.0.0/12", "2001:db8::/32", "192.0.2.0/28", "192.0.2.7/32"} {
			m := draw.Map{Window: netip.MustParsePrefix(window), Limit: []int{0, 7, 100}[random.IntN(3)], Least: []float64{0, 1, 5000}[random.IntN(3)]}
			m.Blocks = scattered(random, m.Window, random.IntN(4000))
			boxes := m.Boxes()
			if limit := max(m.Limit, 1); len(boxes) > limit && m.Limit > 0 || len(boxes) > 1000 {
				t.Errorf("seed %d: %s has %d boxes, want at most %d", seed, window, len(boxes), m.Limit)
			}
			area, next := 0.0, m.Window.Addr()
			for _, box := range boxes {
				if box.Prefix.Addr() != next {
					t.Fatalf("seed %d: %s: the box %s begins elsewhere than at %s", seed, window, box.Prefix, next)
				}
				area, next = area+box.W*box.H, after(box.Prefix)
			}
			if area != draw.Width*draw.Height || next != after(m.Window) {
				t.Errorf("seed %d: the boxes of %s have an area of %v up to %s", seed, window, area, next)
			}
		}
	}
}

// scattered returns random blocks in a window. They may overlap.
func scattered(random *rand.Rand, window netip.Prefix, count int) []draw.Block {
	blocks := make([]draw.Block, count)
	for i := range blocks {
		bytes := window.Addr().AsSlice()
		bits := window.Bits() + random.IntN(len(bytes)*8-window.Bits()+1)
		for at := window.Bits(); at < bits; at++ {
			bytes[at/8] |= byte(random.IntN(2)) << (7 - at%8)
		}
		addr, _ := netip.AddrFromSlice(bytes)
		blocks[i] = draw.Block{Prefix: netip.PrefixFrom(addr, bits), Kind: draw.Kind(2 + random.IntN(5))}
	}
	draw.Sort(blocks)
	return blocks
}

// after returns the first address after a prefix; the zero Addr if the prefix is the last.
func after(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for at := p.Bits(); at < len(bytes)*8; at++ {
		bytes[at/8] |= 1 << (7 - at%8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last.Next()
}

// The figure of a million blocks has no more shapes than that of a few.
func TestFigure_LimitsTheShapesOfAMillionBlocks(t *testing.T) {
	t.Parallel()
	m := million()
	f := m.Figure("Pool", "A map", linked)
	shapes, blocks := 0, 0
	for _, shape := range f.Shapes {
		shapes += 1 + len(shape.Lines)
		blocks += max(shape.Blocks, 1)
	}
	if shapes > 2000 || len(f.Shapes) < 500 {
		t.Errorf("a million blocks are drawn as %d boxes, %d shapes in all; want 500 boxes and at most 2000 shapes", len(f.Shapes), shapes)
	}
	if blocks < len(m.Blocks) {
		t.Errorf("the figure counts %d blocks, want all %d", blocks, len(m.Blocks))
	}
}

// million returns a map of an IPv6 /32 with a million blocks of length 56.
func million() draw.Map {
	m := draw.Map{Window: netip.MustParsePrefix("2001:db8::/32"), Blocks: make([]draw.Block, 1_000_000)}
	for i := range m.Blocks {
		at := uint32(i) * 13
		m.Blocks[i] = draw.Block{Kind: draw.Own, Prefix: netip.PrefixFrom(
			netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(at >> 16), byte(at >> 8), byte(at)}), 56)}
	}
	draw.Sort(m.Blocks)
	return m
}

func BenchmarkFigure_OfAMillionBlocks(b *testing.B) {
	m := million()
	b.ReportAllocs()
	for b.Loop() {
		f := m.Figure("Pool", "A map", linked)
		must.Get(f.SVG())(b)
		b.ReportMetric(float64(len(f.Shapes)), "boxes")
	}
}

// Numbers of addresses are exact as long as people can read them.
func TestCount_IsExactWhileLegible(t *testing.T) {
	t.Parallel()
	for digits, want := range map[string]string{
		"0": "0", "112": "112", "1024": "1,024", "1048576": "1,048,576", "999999999": "999,999,999",
		"4294967296": "2³²", "4294967297": "4.29×10⁹", "79228162514264337593543950336": "2⁹⁶", "271000000000000000000000000": "2.71×10²⁶",
	} {
		n, _ := new(big.Int).SetString(digits, 10)
		if got := draw.Count(n); got != want {
			t.Errorf("Count(%s) = %q, want %q", digits, got, want)
		}
	}
	if got := draw.Size(netip.MustParsePrefix("2001:db8::/32")); got != "2⁹⁶" {
		t.Errorf("Size(2001:db8::/32) = %q, want %q", got, "2⁹⁶")
	}
}
