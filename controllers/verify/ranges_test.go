package verify

import (
	"cmp"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// network adds the pool of a network to the scene, which a claim holds, and publishes both.
func (s *scene) network(by ledger.ClaimID) ledger.Pool {
	s.Helper()
	p := ledger.Pool{Cluster: "w", Name: "net-a", Derived: &ledger.Derived{
		Class: "net", Workspace: "w", Scope: ledger.Scope{"network": {Kind: "Network", Name: "a"}},
		Holder: ledger.Holder{Claim: by, Cluster: "w", Namespace: "default", Name: "range"},
	}}
	p = must.Get(s.ledger.Derived().Provision(s.Context(), ledger.Request{Pool: "uid-of-root", Length: 24}, p, nil))(s)
	s.show("root", "10.0.0.0/16", "65536", "800", "64736")
	s.show("net-a", p.CIDR.String(), "256", "0", "256")
	s.pools["net-a"].Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "net"}
	s.pools["net-a"].Spec.Scope = ipamv1alpha1.Scope{"network": {Kind: "Network", Name: "a"}}
	s.claims["range"] = gen.Claim("range", gen.OfClass("net"), gen.ForRange())
	s.claims["range"].Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: p.CIDR.String()}
	return p
}

// lives publishes a claim with a block of a pool, or of an address space of it.
func (s *scene) lives(p ledger.Pool, apart ledger.Derived, name string) {
	s.Helper()
	at := netip.PrefixFrom(p.CIDR.Addr(), 32)
	r := request(name, at.String())
	if r.Pool = p.ID; apart.Of != "" {
		r.Pool, r.Begins = apart.ID(), &apart
	}
	must.Get(s.ledger.Bind(s.Context(), r))(s)
	s.publish(name, at.String())
	s.records[name].Spec.PoolRef.Name = p.Name
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
			must.Get(s.ledger.Derived().Begin(s.Context(), p.ID, "uid-of-range", time.Now()))(s)
			delete(s.pools, "net-a")
		}},
		"no IPPool": {change: func(s *scene, p ledger.Pool) {
			s.lives(p, ledger.Derived{}, "inside")
			delete(s.pools, "net-a")
		}, want: []Kind{PoolWithoutObject}},
		"no IPPool, and a block in an address space": {change: func(s *scene, p ledger.Pool) {
			s.lives(p, ledger.Derived{Of: p.ID, Workspace: "w", Scope: ledger.Scope{"zone": {Kind: "Zone", Name: "z"}}}, "inside")
			delete(s.pools, "net-a")
		}, want: []Kind{PoolWithoutObject}},
		"no pool": {
			change: func(s *scene, p ledger.Pool) {
				must.Do(s, s.ledger.Derived().Drop(s.Context(), p.ID, "uid-of-range", time.Time{}))
				must.Do(s, s.ledger.Pools().Retire(s.Context(), p.ID))
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
			p := s.network(cmp.Or(tt.by, "uid-of-range"))
			if tt.change != nil {
				tt.change(s, p)
			}
			s.wants(tt.want...)
		})
	}
}

// The figures of a pool with address spaces are those of the fullest; the spaces have its CIDR, and are not found to overlap it.
func TestVerify_AddressSpaces(t *testing.T) {
	s := newScene(t)
	apart := testbed.Pool("w", "uid-of-apart", "10.9.0.0/16")
	apart.Name = "apart"
	must.Get(s.ledger.Pools().Register(t.Context(), apart))(t)
	for _, name := range []string{"x", "y"} {
		space := ledger.Derived{Of: "uid-of-apart", Workspace: "w", Scope: ledger.Scope{"network": {Kind: "Network", Name: name}}}
		r := request("in-"+name, "10.9.0.0/28")
		r.Pool, r.Begins = space.ID(), &space
		must.Get(s.ledger.Bind(t.Context(), r))(t)
		s.publish("in-"+name, "10.9.0.0/28")
		s.records["in-"+name].Spec.PoolRef.Name = "apart"
	}
	s.show("apart", "10.9.0.0/16", "65536", "16", "65520")
	s.wants()
}

// later is a clock that is ahead.
type later struct {
	clock.RealClock
	by time.Duration
}

func (l later) Now() time.Time { return time.Now().Add(l.by) }

// A block that is reserved lacks a claim and a record for a while, and a claim that shows it a
// block of its own. When nobody confirms it for long, that is a finding.
func TestVerify_Reservations(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		shows   string        // what the claim shows; empty: there is none
		age     time.Duration // of the last answer
		renewed time.Duration // how long before that the first one was
		want    []Kind
		message string
	}{
		{"reserved", "", time.Second, 0, nil, ""},
		{"reserved, and shown", "10.0.2.0/28", time.Second, 0, nil, ""},
		{"reserved, and the claim shows something else", "10.0.3.0/28", time.Second, 0, []Kind{ClaimWithoutBlock}, ""},
		{"never created", "", overdue, 0, []Kind{BlockWithoutClaim}, "was not created"},
		{"never created, again and again", "", time.Second, overdue, []Kind{BlockWithoutClaim}, "was not created"},
		{"never confirmed", "10.0.2.0/28", overdue, 0, []Kind{BlockWithoutClaim}, "shows the block"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			claim := gen.Claim("new")
			r := request("new", "10.0.2.0/28")
			r.Holder.Claim = promise.Of("w", claim)
			must.Get(s.ledger.Reservations().Reserve(t.Context(), r))(t)
			s.show("root", "10.0.0.0/16", "65536", "560", "64976")
			if tt.shows != "" {
				claim.Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: tt.shows}
				s.claims["new"] = claim
			}
			s.Clock, s.renewed = later{by: tt.age}, tt.renewed
			for _, f := range s.wants(tt.want...) {
				if f.Kind == BlockWithoutClaim && (f.Repair != ConfirmRelease || ledger.ClaimID(f.UID) != r.Holder.Claim || !strings.Contains(f.Message, tt.message)) {
					t.Errorf("the finding is %+v, want one that says %q, with repair %s", f, tt.message, ConfirmRelease)
				}
			}
		})
	}
}

// A block that two CREATEs were answered with stays for a while after the claim that got it is
// deleted.
func TestVerify_BlockOfTwoAnswers(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration][]Kind{time.Second: nil, overdue: {BlockWithoutClaim}} {
		s := newScene(t)
		r := request("new", "10.0.2.0/28")
		r.Holder.Claim = promise.Of("w", gen.Claim("new"))
		for range 2 {
			must.Get(s.ledger.Reservations().Reserve(t.Context(), r))(t)
		}
		_, ok, err := s.ledger.Reservations().Confirm(t.Context(), allocator.Confirmation{
			Reservation: r.Holder.Claim, Claim: "uid-of-new", Prefix: r.Exact, Policy: ledger.Delete, Certain: true,
		})
		if err != nil || !ok {
			t.Fatalf("Confirm = %t, %v; want the reservation confirmed", ok, err)
		}
		s.show("root", "10.0.0.0/16", "65536", "560", "64976")
		s.Clock = later{by: age}
		s.wants(want...)
	}
}
