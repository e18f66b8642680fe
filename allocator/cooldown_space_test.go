package allocator

import (
	"strconv"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// A pool with an address space in use is not retired. The addresses that cool in others are given to nobody meanwhile.
func TestRetire_KeepsTheCooldownsBesideAnAddressSpaceInUse(t *testing.T) {
	i := newIcebox(t)
	i.cooldown = time.Hour
	i.bind(request(i.space("p", "used").ID, "used", 32))
	former := map[string]ledger.Block{}
	for n := range 4 {
		name := "vrf-" + strconv.Itoa(n)
		former[name] = i.bind(request(i.space("p", name).ID, "of-"+name, 32))
		i.free(former[name].Holder.Claim)
	}
	must.Be(t, i.Pools().Retire(t.Context(), "p"), ledger.ErrPoolInUse)
	for name, b := range former {
		if next := i.bind(request(i.space("p", name).ID, "next-"+name, 32)); next.Prefix == b.Prefix {
			t.Errorf("%s is given to another claim in %s within its cooldown", next.Prefix, name)
		}
	}
	i.sameAsLedger(i.follower())
}

// The DELETE of a range claim that fails ends no cooldown: the addresses that cool in the address spaces of the range are given to nobody.
func TestReopen_KeepsTheCooldownsOfAddressSpaces(t *testing.T) {
	for name, open := range map[string]func(Derived, ledger.PoolID) error{
		"reopened": func(d Derived, id ledger.PoolID) error { return d.Reopen(t.Context(), id) },
		"dropped":  func(d Derived, id ledger.PoolID) error { return d.Drop(t.Context(), id, "range", time.Time{}) },
	} {
		i := newIcebox(t)
		wanted := ofNetwork("net", "a")
		wanted.Derived.Holder = claim("range")
		net := i.provision("p", 28, wanted)
		i.cooldown = time.Hour
		former := i.bind(request(i.space(net.ID, "b").ID, "former", 32))
		i.free("former")
		must.Do(t, i.Derived().Begin(t.Context(), net.ID, "range", i.clock.now().Add(time.Minute)))
		must.Do(t, open(i.Derived(), net.ID))
		if next := i.bind(request(i.space(net.ID, "b").ID, "next", 32)); next.Prefix == former.Prefix {
			t.Errorf("%s: %s is given to another claim within its cooldown", name, next.Prefix)
		}
		i.sameAsLedger(i.follower())
	}
}
