package allocator

import (
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// The ledger keeps the origin that the first caller has seen, until somebody replaces it on purpose.
func TestOrigin(t *testing.T) {
	l := newLedger(t)
	origin := func(a *Allocator, seen, want string) {
		t.Helper()
		if got, err := a.Recovery().Origin(t.Context(), seen); err != nil || got != want {
			t.Errorf("Origin(%q) = %q, %v; want %q", seen, got, err, want)
		}
	}
	read := Reader{Client: l.etcd.Client()}
	if got, err := read.Origin(t.Context()); err != nil || got != "" {
		t.Errorf("a new ledger has the origin %q, %v; want none", got, err)
	}
	origin(l.Allocator, "first", "first")
	origin(l.Allocator, "second", "first")
	moved := must.Get(Open(t.Context(), l.etcd.Client(), Options{Origin: "second"}))(t)
	defer moved.Close()
	origin(moved, "third", "second")
	origin(l.Allocator, "first", "second")
	if got, err := read.Origin(t.Context()); err != nil || got != "second" {
		t.Errorf("a Reader finds the origin %q, %v; want second", got, err)
	}
}
