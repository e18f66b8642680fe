package space

import (
	"math/big"
	"net/netip"
	"slices"
	"unique"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// reading collects the owners of a space that is being read. There may be millions of blocks, most of them
// of few owners: their addresses are added up once, at the end.
type reading struct {
	held   map[share]int64               // how many blocks
	latest owners                        // of the last block; the next one often has the same
	noted  map[netip.Prefix]store.Record // blocks that have a lease, or reservations
}

// noteBlock keeps a block that the table has to know, when the reading is published.
func (d *reading) noteBlock(prefix netip.Prefix, r store.Record) {
	if _, leased := LeaseOf(r); leased || slices.ContainsFunc(r.Holdings, isReservation) {
		d.noted[prefix] = r
	}
}

func isReservation(h store.Holding) bool {
	_, is := ledger.ReservedBy(h.Claim)
	return is
}

// share is the blocks of one owner that are of one size.
type share struct {
	by   unique.Handle[Owner]
	free int // bits of an address that the length leaves free
}

// ownersOf returns the owners of a block.
func (d *reading) ownersOf(r store.Record) owners {
	if len(r.Holdings) > 1 {
		return ownersOf(r)
	}
	if len(d.held) == 0 || d.latest.first.Value() != OwnerOf(r.Holdings[0]) {
		d.latest = ownersOf(r)
	}
	return d.latest
}

// settle adds up what the owners hold, when all is read.
func (d *reading) settle(into usage) {
	for sh, blocks := range d.held {
		n := big.NewInt(blocks)
		n.Lsh(n, uint(sh.free))
		for a := range sh.by.Value().accounts() {
			into.add(a, n)
		}
	}
	clear(d.held)
}
