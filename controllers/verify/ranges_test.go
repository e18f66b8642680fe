package verify

import (
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// network adds the pool of a network to the scene, which a claim holds, and publishes both.
func (s *scene) network(by ledger.ClaimID) ledger.Pool {
	s.Helper()
	p := ledger.Pool{Cluster: "w", Name: "net-a", Derived: &ledger.Derived{
		Class: "net", Workspace: "w", Scope: ledger.Scope{"network": {Kind: "Network", Name: "a"}},
		Holder: ledger.Holder{Claim: by, Cluster: "w", Namespace: "default", Name: "range"},
	}}
	p, err := s.ledger.Derived().Provision(s.Context(), ledger.Request{Pool: "uid-of-root", Length: 24}, p, nil)
	s.must(err)
	s.show("root", "10.0.0.0/16", "65536", "800", "64736")
	s.show("net-a", p.CIDR.String(), "256", "0", "256")
	s.pools["net-a"].Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "net"}
	s.pools["net-a"].Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}}
	s.claims["range"] = gen.Claim("range", gen.OfClass("net"), gen.ForRange())
	s.claims["range"].Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: p.CIDR.String()}
	return p
}

// Every difference between a pool that the system has made, its IPPool and its claim is found; none if there is none.
func TestVerify_Ranges(t *testing.T) {
	reserved := promise.Of("w", gen.Claim("range", gen.OfClass("net"), gen.ForRange()))
	for name, tt := range map[string]struct {
		by     ledger.ClaimID
		change func(s *scene, p ledger.Pool)
		want   []Kind
	}{
		"all in order": {},
		"reserved":     {by: reserved},
		"closed, without IPPool": {change: func(s *scene, p ledger.Pool) {
			s.must(s.ledger.Derived().Begin(s.Context(), p.ID, "uid-of-range", time.Now()))
			delete(s.pools, "net-a")
		}},
		"no IPPool": {change: func(s *scene, _ ledger.Pool) { delete(s.pools, "net-a") }, want: []Kind{PoolWithoutObject}},
		"no pool": {
			change: func(s *scene, p ledger.Pool) {
				s.must(s.ledger.Derived().Drop(s.Context(), p.ID, "uid-of-range", time.Time{}))
				s.must(s.ledger.Pools().Retire(s.Context(), p.ID))
				s.show("root", "10.0.0.0/16", "65536", "544", "64992")
				delete(s.claims, "range")
			},
			want: []Kind{PoolNotRegistered},
		},
		"a forged IPPool": {
			change: func(s *scene, _ ledger.Pool) {
				forged := s.pools["net-a"].DeepCopy()
				forged.Name, forged.Status = "forged", ipamv1alpha1.IPPoolStatus{}
				s.pools["forged"] = forged
			},
			want: []Kind{PoolNotRegistered},
		},
		"no claim":      {change: func(s *scene, _ ledger.Pool) { delete(s.claims, "range") }, want: []Kind{BlockWithoutClaim}},
		"another claim": {by: "uid-of-another", want: []Kind{BlockWithoutClaim, ClaimWithoutBlock}},
		"a claim that shows another range": {
			change: func(s *scene, _ ledger.Pool) { s.claims["range"].Status.AllocatedCIDR = "10.0.9.0/24" }, want: []Kind{ClaimMismatch},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			by := tt.by
			if by == "" {
				by = "uid-of-range"
			}
			p := s.network(by)
			if tt.change != nil {
				tt.change(s, p)
			}
			if got, findings := s.verify(); !slices.Equal(got, tt.want) {
				t.Errorf("found are %v, want %v: %+v", got, tt.want, findings)
			}
		})
	}
}

// The figures of a pool with address spaces are those of the fullest; the spaces have its CIDR, and are not found to overlap it.
func TestVerify_AddressSpaces(t *testing.T) {
	s := newScene(t)
	apart := testbed.Pool("w", "uid-of-apart", "10.9.0.0/16")
	apart.Name = "apart"
	_, err := s.ledger.Pools().Register(t.Context(), apart)
	s.must(err)
	for _, name := range []string{"x", "y"} {
		space, err := s.ledger.Derived().Space(t.Context(), "uid-of-apart", "w", ledger.Scope{"network": {Kind: "Network", Name: name}})
		s.must(err)
		r := request("in-"+name, "10.9.0.0/28")
		r.Pool = space.ID
		_, err = s.ledger.Bind(t.Context(), r)
		s.must(err)
		s.publish("in-"+name, "10.9.0.0/28")
		s.records["in-"+name].Spec.PoolRef.Name = "apart"
	}
	s.show("apart", "10.9.0.0/16", "65536", "16", "65520")
	if got, findings := s.verify(); len(got) != 0 {
		t.Errorf("found are %v: %+v", got, findings)
	}
}
