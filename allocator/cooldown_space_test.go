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
