package claim

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// deciding returns the decision about a stored claim of the tenant.
func deciding(ledger views.Ledger, claim *ipamv1alpha1.IPClaim) *decision {
	r := &Reconciler{Options: Options{Ledger: ledger, Directory: directory.New(directory.Workspace{Cluster: "platform"})}}
	return &r.stored(requestIn("tenant", claim.Name), &testbed.Workspace{}, claim).decision
}

// A claim waits at the pools that may serve it now, and at no others. At a pool that it may no longer use, room would
// be held for it again and again.
func TestTry_WaitsOnlyAtItsCandidates(t *testing.T) {
	t.Parallel()
	alloc := testbed.Ledger(t, etcdtest.New(t).Client(), allocator.Options{},
		testbed.Pool("tenant", "uid-of-a", "10.0.0.0/24"), testbed.Pool("tenant", "uid-of-b", "10.1.0.0/24"))
	both := []resolve.Candidate{{Pool: gen.Pool("a"), Length: 23}, {Pool: gen.Pool("b"), Length: 23}}
	l := views.Of(alloc)
	waits := noteWaits(&l)
	p := deciding(l, gen.Claim("c"))

	for _, candidates := range [][]resolve.Candidate{both, both[1:], nil} {
		_, err := p.try(t.Context(), resolve.Plan{Candidates: candidates})
		if _, refused := errors.AsType[*outcome.Refusal](err); !refused {
			t.Fatal(err)
		}
		for i, c := range both {
			want := 0
			if i >= len(both)-len(candidates) {
				want = 1
			}
			if n := waits.count(ledger.PoolID(c.Pool.UID)); n != want {
				t.Errorf("with %d candidates %d wait at pool %s, want %d", len(candidates), n, c.Pool.Name, want)
			}
		}
	}
}

// A transaction whose answer was lost has bound a block for a claim, and then no pool serves the claim's class any
// more. The claim keeps the block. A claim without a block stays Pending.
func TestBind_FindsTheBlockOfALostAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, []client.Object{
		gen.Class("internal", gen.DefaultLength(28)), readyPool("p", "10.0.0.0/24", gen.Visible(ipamv1alpha1.VisibilityPlatform)),
	})
	claim := s.stored(gen.Claim("c", gen.OfClass("internal")), door.Answer{})
	must.Get(s.ledger.Bind(t.Context(), ledger.Request{Pool: "uid-of-p", Length: 28, Class: "internal", Holder: promise.HolderOf("tenant", claim)}))(t)
	if c := s.reconcile("c"); c.Status.Phase != ipamv1alpha1.ClaimBound || c.Status.AllocatedCIDR != "10.0.0.0/28" || c.Status.Requested != "/28" {
		t.Errorf("the claim is %+v; want it bound, and to show what it asked for", c.Status)
	}
	if c := s.stored(gen.Claim("other", gen.OfClass("internal")), door.Answer{}); s.reconcile(c.Name).Status.Phase != ipamv1alpha1.ClaimPending {
		t.Error("a claim without a block is not Pending")
	}
}

// A claim for an address that a pool excludes does not wait for room in this pool, because no room there can serve it.
func TestTry_DoesNotWaitAtAPoolThatExcludesItsAddress(t *testing.T) {
	t.Parallel()
	pool, exact := gen.Pool("a"), netip.MustParsePrefix("10.0.0.4/32")
	registered := testbed.Pool("tenant", string(pool.UID), "10.0.0.0/24")
	registered.Excluded = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29")}
	alloc := testbed.Ledger(t, etcdtest.New(t).Client(), allocator.Options{}, registered)
	l := views.Of(alloc)
	waits := noteWaits(&l)
	p := deciding(l, gen.Claim("c"))
	_, err := p.try(t.Context(), resolve.Plan{Exact: exact, Candidates: []resolve.Candidate{{Pool: pool, Length: 32, Exact: exact}}})
	if refused, ok := errors.AsType[*outcome.Refusal](err); !ok || refused.Reason != ipamv1alpha1.ReasonAddressReserved {
		t.Errorf("try(%s) = %v, want %s", exact, err, ipamv1alpha1.ReasonAddressReserved)
	}
	if n := waits.count(ledger.PoolID(pool.UID)); n != 0 {
		t.Errorf("%d claims wait at pool a, want 0", n)
	}
}

// A PoolExhausted refusal names every pool that did not serve the claim: pools without room for it, and pools that do
// not give out its length. AddressReserved names each pool that withholds the address. AddressInUse names the address
// alone.
func TestRefusal_NamesThePoolsOrTheAddress(t *testing.T) {
	full := miss{resolve.Candidate{Pool: gen.Pool("full")}, &ledger.ExhaustedError{Length: 24, Largest: 26}}
	taken := miss{resolve.Candidate{Pool: gen.Pool("taken")}, ledger.ErrInUse}
	// Another workspace had more than the claim asks for. The extent of its block is nobody else's business.
	cools := miss{resolve.Candidate{Pool: gen.Pool("cools")}, &ledger.CoolingError{Prefix: netip.MustParsePrefix("10.0.0.0/16"), Until: time.Unix(0, 0)}}
	unfit := []*outcome.Refusal{
		{Reason: ipamv1alpha1.ReasonPoolExhausted, Message: `pool "a" is too small`},
		{Reason: ipamv1alpha1.ReasonPoolExhausted, Message: `pool "b" is too small`},
	}
	exact := netip.MustParsePrefix("10.0.0.0/24")
	withheld := &ledger.ExcludedError{Excluded: netip.MustParsePrefix("10.0.0.0/29")}
	reserves := miss{resolve.Candidate{Pool: gen.Pool("reserves", gen.Reserves(8, 0, 32), gen.Excludes("10.0.9.0/24"))}, withheld}
	excludes := miss{resolve.Candidate{Pool: gen.Pool("excludes", gen.Excludes("10.0.0.4/30"))}, withheld}
	shut := func(excluded ...ipamv1alpha1.CIDR) miss {
		pool := gen.Pool("shut", gen.Excludes(excluded...))
		pool.Status.AllocatedCIDR = "10.0.0.0/24"
		return miss{resolve.Candidate{Pool: pool}, &ledger.ExhaustedError{Length: 28, Largest: -1}}
	}
	for _, tt := range []struct {
		name  string
		plan  resolve.Plan
		tried []miss
		want  string
	}{
		{"excluded", resolve.Plan{}, []miss{shut("10.0.0.0/16")}, `PoolExhausted: pool "shut": no free /28: the pool is full; spec.excludedCIDRs withholds all of it`},
		{"excluded in part", resolve.Plan{}, []miss{shut("10.0.0.0/25", "10.0.0.64/26", "10.1.0.0/16")},
			`PoolExhausted: pool "shut": no free /28: the pool is full; spec.excludedCIDRs withholds 128 of its 256 addresses`},
		{"full", resolve.Plan{}, []miss{full}, `PoolExhausted: pool "full": no free /24: the largest free block is a /26`},
		{"full and too small", resolve.Plan{Unfit: unfit}, []miss{full},
			`PoolExhausted: pool "full": no free /24: the largest free block is a /26; pool "a" is too small; pool "b" is too small`},
		{"taken", resolve.Plan{Exact: exact}, []miss{taken}, `AddressInUse: 10.0.0.0/24 is in use, in part or whole`},
		{"taken and too small", resolve.Plan{Exact: exact, Unfit: unfit[:1]}, []miss{taken},
			`PoolExhausted: pool "taken": prefix is in use; pool "a" is too small`},
		{"cooling", resolve.Plan{Exact: exact}, []miss{cools}, `AddressInUse: 10.0.0.0/24: prefix is cooling, and is given to nobody else until 1970-01-01T00:00:00Z`},
		{"cooling and too small", resolve.Plan{Exact: exact, Unfit: unfit[:1]}, []miss{cools},
			`PoolExhausted: pool "cools": prefix is cooling, and is given to nobody else until 1970-01-01T00:00:00Z; pool "a" is too small`},
		{"reserved", resolve.Plan{Exact: exact}, []miss{reserves, excludes},
			`AddressReserved: 10.0.0.0/24 is never handed out: pool "reserves" reserves 10.0.0.0/29; pool "excludes" excludes 10.0.0.4/30; ` +
				`ask for an address outside of that, or for a prefix length instead of an address`},
		{"reserved here and taken there", resolve.Plan{Exact: exact}, []miss{reserves, taken}, `AddressInUse: 10.0.0.0/24 is in use, in part or whole`},
		{"reserved and too small", resolve.Plan{Exact: exact, Unfit: unfit[:1]}, []miss{reserves},
			`PoolExhausted: pool "reserves": prefix overlaps 10.0.0.0/29, which the pool excludes; pool "a" is too small`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tried := slices.Clone(tt.tried)
			for i := range tried {
				tried[i].Exact = tt.plan.Exact // of each pool that has it
			}
			if got := refusal(tt.plan, tried).Error(); got != tt.want {
				t.Errorf("refusal = %s\nwant %s", got, tt.want)
			}
		})
	}
}
