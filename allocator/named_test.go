package allocator

import (
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// The derived pools of a name are found in their workspace, by each Allocator and also after the start, until they are retired.
func TestNamed_ListsThePoolsOfAName(t *testing.T) {
	l := newLedger(t)
	other := l.open()
	l.pool("p", "10.0.0.0/16")
	l.pool("net-a", "10.1.0.0/16") // its name, too
	first, second, elsewhere := ofNetwork("net", "a"), ofNetwork("net", "b"), ofNetwork("net", "c")
	second.Name, elsewhere.Name, elsewhere.Cluster = first.Name, first.Name, "platform"
	want := []ledger.PoolID{l.provision("p", 24, first).ID, l.provision("p", 24, second).ID}
	l.provision("p", 24, elsewhere)
	l.provision("p", 24, ofNetwork("net", "d"))
	slices.Sort(want)
	check := func(allocators ...*Allocator) {
		for _, a := range allocators {
			a.catchUp(t)
			got := a.Derived().Named("tenant", "net-a")
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("Named = %v, want %v", got, want)
			}
		}
	}
	check(l.Allocator, other, l.open())
	must.Do(t, l.Pools().Retire(t.Context(), want[0]))
	want = want[1:]
	check(l.Allocator, other, l.open())
}
