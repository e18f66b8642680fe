package recover

import (
	"cmp"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// network provisions a derived pool that a claim holds, and publishes the pool and the claim.
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

// lives binds a block of a pool, or of an address space of the pool, to a claim, and publishes the claim and its
// IPAllocation.
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

// Every difference between a derived pool, its IPPool and its range claim is a finding. If nothing differs, there is
// none.
func TestVerify_FindsEachDifferenceOfARange(t *testing.T) {
	answered := promise.NewID("w", "default", "range")
	shows := func(s *scene, _ ledger.Pool) {
		s.claims["range"].Status.AllocationID = types.UID(answered)
		s.Clock = later{by: overdue + time.Second}
	}
	for name, tt := range map[string]struct {
		by     ledger.ClaimID
		change func(s *scene, p ledger.Pool)
		want   []Kind
	}{
		"all in order":                   {},
		"by the ID that the claim shows": {by: answered, change: shows},
		"by the ID that a claim which cannot be read shows": {by: answered, change: func(s *scene, p ledger.Pool) {
			shows(s, p)
			s.claims["range"].Annotations = map[string]string{decode.Mark: "spec.x"}
		}, want: []Kind{Unreadable}},
		"by a claim that cannot be read": {change: func(s *scene, _ ledger.Pool) {
			s.claims["range"].Annotations = map[string]string{decode.Mark: "spec.x"}
		}, want: []Kind{Unreadable}},
		"answered, and not stored yet": {by: answered, change: func(s *scene, _ ledger.Pool) { delete(s.claims, "range") }},
		"answered long ago, and never stored": {by: answered, change: func(s *scene, _ ledger.Pool) {
			delete(s.claims, "range")
			s.Clock = later{by: overdue + time.Second}
		}, want: []Kind{BlockWithoutClaim}},
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

// The capacity of a pool with address spaces is that of the address space in which most addresses are taken. An address
// space has the CIDR of its pool, which does not count as an overlap.
func TestVerify_ShowsTheFullestAddressSpace(t *testing.T) {
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

// A block that was bound for a CREATE may lack its claim and IPAllocation for a while. After overdue the missing claim
// is a finding.
func TestVerify_FindsAnAnswerWithoutAClaimOnlyWhenOverdue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		age  time.Duration
		want []Kind
	}{
		{"answered a moment ago", time.Second, nil},
		{"answered so long ago that it should be free", overdue + time.Second, []Kind{BlockWithoutClaim}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			r := request("new", "10.0.2.0/28")
			r.Holder.Claim = promise.NewID("w", "default", "new")
			must.Get(s.ledger.Bind(t.Context(), r))(t)
			s.show("root", "10.0.0.0/16", "65536", "560", "64976")
			s.Clock = later{by: tt.age}
			for _, f := range s.wants(tt.want...) {
				if f.Repair != ConfirmRelease || ledger.ClaimID(f.UID) != r.Holder.Claim {
					t.Errorf("the finding is %+v, want one of %s with repair %s", f, r.Holder.Claim, ConfirmRelease)
				}
			}
		})
	}
}

// A claim that shows an allocation ID holds the block under that ID, and its IPAllocation names that ID. That is so
// even if the claim is gone, or one of both objects cannot be read. The ID does not count if it is that of another
// claim, or if the claim shows no address.
func TestVerify_FindsBlocksByAllocationIDs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(s *scene, claim *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation)
		want   []Kind
	}{
		{"in order", func(*scene, *ipamv1alpha1.IPClaim, *ipamv1alpha1.IPAllocation) {}, nil},
		{"a claim that cannot be read", func(_ *scene, claim *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
			claim.Annotations = map[string]string{decode.Mark: "spec.x"}
		}, []Kind{Unreadable}},
		{"a record that cannot be read", func(_ *scene, _ *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) {
			record.Annotations = map[string]string{decode.Mark: "spec.x"}
		}, []Kind{Unreadable}},
		{"a retained block", func(s *scene, claim *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) {
			_, _, err := s.ledger.Retained().Retain(s.Context(), promise.IDOf("w", claim), time.Time{})
			must.Do(s, err)
			delete(s.claims, claim.Name)
			from := claim.Name + "/" + string(claim.UID) + "/" + string(claim.Status.AllocationID)
			record.Spec.ClaimRef, record.Annotations = nil, map[string]string{ipamv1alpha1.AnnotationRetainedFrom: from}
		}, nil},
		{"another address shown", func(_ *scene, claim *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
			claim.Status.AllocatedCIDR = "10.0.3.0/28"
		}, []Kind{ClaimMismatch}},
		{"a record of the UID", func(_ *scene, _ *ipamv1alpha1.IPClaim, record *ipamv1alpha1.IPAllocation) {
			record.Spec.ClaimRef.AllocationID = ""
		}, []Kind{BlockWithoutRecord, RecordWithoutBlock}},
		{"the ID of another claim", func(_ *scene, claim *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
			claim.Name = "copy"
		}, []Kind{BlockWithoutClaim, ClaimWithoutBlock}},
		{"an ID and no address", func(_ *scene, claim *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
			claim.Status.AllocatedCIDR = ""
		}, []Kind{BlockWithoutClaim}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.publish("new", "10.0.2.0/28")
			claim, record := s.claims["new"], s.records["new"]
			claim.Status.AllocationID = types.UID(promise.NewID("w", "default", "new"))
			record.Spec.ClaimRef.AllocationID = claim.Status.AllocationID
			r := request("new", "10.0.2.0/28")
			r.Holder = promise.HolderOf("w", claim)
			must.Get(s.ledger.Bind(t.Context(), r))(t)
			s.show("root", "10.0.0.0/16", "65536", "560", "64976")
			tt.change(s, claim, record)
			s.Clock = later{by: overdue + time.Second}
			s.wants(tt.want...)
		})
	}
}
