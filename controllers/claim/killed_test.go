package claim

import (
	"fmt"
	"testing"

	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// A controller may be killed after any of its writes while it makes a network. The next controller gives each claim the
// CIDR with which its CREATE was answered, or will be answered. When the claims are gone, nothing is left, even if the
// client does not come back.
func TestChain_SurvivesAKillWhileANetworkIsMade(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct{ outside, stores, leaves bool }{
		"interface first": {}, "network first": {outside: true}, "stored without an answer": {stores: true}, "nobody comes back": {leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for writes, dead := 1, true; dead; writes++ {
				t.Run(fmt.Sprint(writes), func(t *testing.T) {
					m := newMortal(t)
					m.outside, m.stores = of.outside, of.stores
					m.begins(writes)
					m.makes()
					dead = m.fuse.Blown()
					m.begins(forEver)
					m.later(2 * failing)
					if !of.leaves {
						m.makes()
						m.whole()
					}
					m.later(2 * promise.Grace) // as the CREATE that got no answer may succeed until then
					m.removes()
					m.empty()
				})
			}
		})
	}
}

// A controller may be killed after any of its writes while a network is released. The next controller goes on, and
// nothing is left.
func TestChain_SurvivesAKillWhileANetworkIsReleased(t *testing.T) {
	t.Parallel()
	for writes, dead := 1, true; dead; writes++ {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			m := newMortal(t)
			m.begins(forEver)
			m.makes()
			m.whole()
			m.begins(writes)
			m.removes()
			dead = m.fuse.Blown()
			m.begins(forEver)
			m.later(2 * promise.Grace) // as it does not know which claims were seen
			m.removes()
			m.empty()
		})
	}
}
