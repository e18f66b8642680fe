package capi

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
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

// The IPClaim of an IPAddress that nobody reconciles, or whose IPAddressClaim is paused, is put right: one
// that lost its label is not seen, and one that was deleted before it had the address never gets it. Either
// would else keep all others waiting, or the address from being claimed.
func TestPinned_AnIPClaimOfAStray(t *testing.T) {
	stray, others := machine("stray"), machine("web")
	paused := stray.DeepCopy()
	paused.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	for what, tt := range map[string]struct {
		left    *capiv1.IPAddressClaim // of the stray
		next    *capiv1.IPAddressClaim // what is reconciled
		deleted bool
	}{
		"without label":                    {nil, others, false},
		"without label, of a paused one":   {paused, paused, false},
		"deleted unbound":                  {nil, others, true},
		"deleted unbound, of a paused one": {paused, paused, true},
	} {
		t.Run(what, func(t *testing.T) {
			s := beside(t, "one", others.DeepCopy(), published(stray, "192.0.2.7"))
			if tt.left != nil {
				if err := s.Create(t.Context(), tt.left.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			held := s.Names.newClaim(stray)
			held.Spec.Address = "192.0.2.7"
			if !tt.deleted {
				held.Labels, s.hidden[held] = nil, true
			}
			if err := s.Claims.Create(t.Context(), held); err != nil {
				t.Fatal(err)
			}
			if tt.deleted {
				if err := s.Claims.Delete(t.Context(), held); err != nil {
					t.Fatal(err)
				}
			}
			s.reconcile(tt.next) // lets go of the one that was deleted
			s.reconcile(tt.next)
			if !s.has(held) || held.DeletionTimestamp != nil || held.Labels[LabelOrigin] != "one" || held.Spec.Address != "192.0.2.7" {
				t.Errorf("the IPClaim of the stray is deleted at %v, has the labels %v and asks for %q; want one that is there, labelled, for 192.0.2.7",
					held.DeletionTimestamp, held.Labels, held.Spec.Address)
			}
		})
	}
}
