package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// placed describes a tenure by its holder and its pool.
func placed(t ledger.Tenure) string {
	return strings.TrimSpace(fmt.Sprintf("%s in %s %s", t.Holder.Claim, t.PoolName, t.Scope))
}

// The history has the name of each block's pool, and the network that the pool is for, also after the pool is gone.
func TestHistory_KeepsPoolNameAndScope(t *testing.T) {
	c := newChronicle(t)
	red, blue := c.provision("p", 28, ofNetwork("net", "red")), c.provision("p", 28, ofNetwork("net", "blue"))
	c.bind(request(red.ID, "a", 32))
	c.wait()
	c.free("a")
	c.wait()
	must.Do(t, c.Pools().Retire(t.Context(), red.ID))
	c.wait()
	c.bind(request(blue.ID, "b", 32))
	made := created("made", 32)
	made.Pool = blue.ID
	c.bind(made)
	c.bind(request("p", "end", 32))

	inBlue := string(made.Holder.Claim) + " in net-blue network=blue"
	want := []string{string(red.ID) + " in p", string(blue.ID) + " in p", "a in net-red network=red", "b in net-blue network=blue", inBlue}
	reader := Reader{Client: c.etcd.Client()}
	var all, told []string
	note := func(to *[]string) func(ledger.Tenure, error) bool {
		return func(h ledger.Tenure, err error) bool {
			must.Do(t, err)
			*to = append(*to, placed(h))
			return true
		}
	}
	must.Get(reader.Tenures(t.Context(), netip.Prefix{}, note(&all)))(t)
	for _, e := range c.events(c.etcd.From) {
		told = append(told, placed(e.Tenure))
	}
	for name, tt := range map[string]struct{ got, want []string }{
		"Tenures": {all, append(want, "end in p")}, "Follow": {told, want},
	} {
		slices.Sort(tt.got)
		slices.Sort(tt.want)
		if got := slices.Compact(tt.got); !slices.Equal(got, tt.want) {
			t.Errorf("%s names %q, want %q", name, got, tt.want)
		}
	}
}
