package space

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// BenchmarkPool compares what is asked of each pool at each change with the figures of its status, in a space where
// room is held for many waiters.
func BenchmarkPool(b *testing.B) {
	for _, holds := range []int{100, 10_000} {
		s, _ := spaceOf(netip.MustParsePrefix("10.0.0.0/12"))
		p := s.Pool("p")
		s.Lock()
		for i := range holds {
			s.Room.Wait(p, asks(ledger.ClaimID(fmt.Sprint("c", i))))
		}
		s.Unlock()
		b.Run(fmt.Sprintf("in use/holds=%d", holds), func(b *testing.B) {
			for b.Loop() {
				_ = p.Held()
			}
		})
		b.Run(fmt.Sprintf("capacity/holds=%d", holds), func(b *testing.B) {
			for b.Loop() {
				_ = p.Capacity()
			}
		})
	}
}
