package v1alpha1

import (
	"encoding/binary"
	"net/netip"
)

// Of returns the number of an address: its last bits. That of the zero Addr is 0.
func (n ClassNumber) Of(address netip.Addr) int64 {
	if !address.IsValid() {
		return 0
	}
	bytes := address.AsSlice()
	return int64(binary.BigEndian.Uint32(bytes[len(bytes)-4:])) & n.last()
}

// In returns the address of a pool that has a number. It is the lowest one if the pool has several, and ok is false if
// none has it.
func (n ClassNumber) In(pool netip.Prefix, number int64) (address netip.Prefix, ok bool) {
	if number != number&n.last() {
		return address, false
	}
	bytes := pool.Masked().Addr().AsSlice()
	last := bytes[len(bytes)-4:]
	binary.BigEndian.PutUint32(last, binary.BigEndian.Uint32(last)&^uint32(n.last())|uint32(number))
	addr, _ := netip.AddrFromSlice(bytes) // of an address
	return netip.PrefixFrom(addr, addr.BitLen()), pool.Contains(addr)
}

// last returns a mask of the bits of a number.
func (n ClassNumber) last() int64 { return 1<<n.Bits - 1 }
