package capi

import (
	"testing"
)

// An IPAddress that nobody reconciles keeps other claims waiting until its address is claimed, and
// no longer: one of a namespace, of a pool or in a form that nobody knows could else stop a cluster.
func TestPinned_AStray(t *testing.T) {
	for what, tt := range map[string]struct{ address, want string }{
		"an address":                 {"192.0.2.7", "192.0.2.7"},
		"an address in another form": {"2001:DB8::0:7", "2001:db8::7"},
		"no address":                 {"192.0.2.0/24", ""},
	} {
		claim, stray := machine("web"), machine("stray")
		stray.Namespace, stray.Spec.PoolRef.Name = "elsewhere", "no-such-pool"
		s := newScene(t, lab(), claim, published(stray, tt.address))
		for range 2 {
			s.reconcile(claim)
			s.reconcile(stray)
		}
		if made := inPlace.newClaim(claim); !s.has(made) {
			t.Errorf("beside %s that nobody reconciles no IPClaim is made; the claim says %+v", what, s.ready(claim))
		}
		made := inPlace.newClaim(stray)
		if there := s.has(made); there != (tt.want != "") || made.Spec.Address != tt.want || there && made.Spec.PoolRef.Name != "no-such-pool" {
			t.Errorf("for %s an IPClaim is there: %t, and asks for %q; want it to ask for %q, from its own pool", what, there, made.Spec.Address, tt.want)
		}
	}
}
