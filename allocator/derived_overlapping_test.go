package allocator

import (
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// Pools that are carved in different address spaces of one pool have the same addresses, and so have the pools and
// blocks below them. Pools in one address space have different addresses. A pool stays as long as a pool below it.
func TestProvision_RepeatsAPrefixInEachAddressSpace(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	var made []ledger.Pool
	for _, name := range []string{"red", "blue"} {
		network := l.provision(l.space("p", name).ID, 24, ofNetwork("net", name))
		subnet := l.provision(network.ID, 28, ofNetwork("sub", name))
		l.gets(request(subnet.ID, "host-in-"+name, 32), "10.0.0.0/32")
		if network.CIDR != prefix("10.0.0.0/24") || subnet.CIDR != prefix("10.0.0.0/28") {
			t.Errorf("network %s is %s, with the subnet %s; want 10.0.0.0/24 and 10.0.0.0/28", name, network.CIDR, subnet.CIDR)
		}
		made = append(made, network, subnet)
	}
	red := l.space("p", "red")
	if second := l.provision(red.ID, 24, ofNetwork("other", "red")); second.CIDR != prefix("10.0.1.0/24") {
		t.Errorf("a second pool of the network is %s, want 10.0.1.0/24", second.CIDR)
	}
	l.sameAsLedger()
	for _, id := range []ledger.PoolID{"p", made[0].ID} {
		must.Be(t, l.Pools().Retire(t.Context(), id), ledger.ErrPoolInUse)
	}
	changes := must.Get(l.Pools().Changes("p"))(t)
	must.Do(t, l.Release(t.Context(), "host-in-red"))
	must.Do(t, l.Release(t.Context(), "host-in-blue"))
	if l.Pools().InUse("p") || l.Pools().InUse(red.ID) {
		t.Error("a pool is in use by pools that nobody uses")
	}
	for _, below := range l.Derived().Below("p") { // each before the one above it
		if ledger.IsAddressSpace(below.ID) {
			l.waitGone(below.ID)
			continue
		}
		must.Do(t, l.Pools().Retire(t.Context(), below.ID))
	}
	if now := must.Get(l.Pools().Changes("p"))(t); now <= changes {
		t.Errorf("the pool counts %d changes, and had %d before its address spaces went: a copy from then would be believed", now, changes)
	}
	must.Do(t, l.Pools().Retire(t.Context(), "p"))
	l.sameAsLedger()
}

// Pools that all workspaces share have the same addresses, too, if they are carved in different address spaces for all
// workspaces.
func TestProvision_RepeatsAPrefixInAddressSpacesOfAllWorkspaces(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	for _, name := range []string{"red", "blue"} {
		space := l.spaceFor("p", "", network(name))
		shared := ofNetwork("net", name)
		shared.Derived.Workspace, shared.Derived.By = "", "tenant"
		if got := l.provision(space.ID, 24, shared).CIDR; got != prefix("10.0.0.0/24") {
			t.Errorf("network %s is %s, want 10.0.0.0/24", name, got)
		}
	}
	if n := l.Pools().Count("tenant"); n != 2 {
		t.Errorf("%d pools count for the workspace, want its two networks, and no address space", n)
	}
	l.sameAsLedger()
}

// The addresses of a retired pool cool only in its address space. Meanwhile its own network gets other addresses. Any
// other network may get the addresses that cool there.
func TestProvision_CoolsInItsAddressSpace(t *testing.T) {
	l := newLedger(t, func(o *Options) { o.Cooldown = func(ledger.Block) (time.Duration, error) { return time.Hour, nil } })
	l.pool("p", "10.0.0.0/16")
	red := l.space("p", "red")
	must.Do(t, l.Pools().Retire(t.Context(), l.provision(red.ID, 24, ofNetwork("net", "red")).ID))
	got := []string{
		l.provision(red.ID, 24, ofNetwork("other", "red")).CIDR.String(),
		l.provision(l.space("p", "blue").ID, 24, ofNetwork("net", "blue")).CIDR.String(),
	}
	if want := []string{"10.0.1.0/24", "10.0.0.0/24"}; !slices.Equal(got, want) {
		t.Errorf("the network and another one have %v, want %v", got, want)
	}
	l.sameAsLedger()
}
