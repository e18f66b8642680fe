package resolve_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

const (
	isPlatform = gen.Visible(ipamv1alpha1.VisibilityPlatform)
	isShared   = gen.Visible(ipamv1alpha1.VisibilityShared)
	isConsumer = gen.Visible(ipamv1alpha1.VisibilityConsumer)
	v6         = gen.Family(ipamv1alpha1.IPv6)
)

func day(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }

// place returns the usual world: a class, and the pools that serve it, one of the claim's workspace and two of the
// platform.
func place() world {
	return world{
		classes: []*ipamv1alpha1.IPClass{gen.Class("c", gen.Lengths{Min: 24, Max: 28}, gen.DefaultLength(28))},
		pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{
			platform: {ready(gen.Pool("b", isPlatform, gen.Backs("c"))), ready(gen.Pool("a", isPlatform, gen.Backs("c")))},
			web:      {ready(gen.Pool("own", gen.Backs("c")))},
		},
	}
}

// bounded makes the pools of the platform hand out no prefix longer than a /25.
func (w *world) bounded() {
	for _, p := range w.pools[platform] {
		p.Spec.Allocation.MaxPrefixLength = 25
	}
}

// TestResolve_Messages has the plain refusals.
func TestResolve_OrdersThePoolsOfAClass(t *testing.T) {
	for _, tt := range []struct {
		name   string
		from   directory.Workspace
		claim  *ipamv1alpha1.IPClaim // nil: by the class c
		change func(*world)
		want   []string
		reason ipamv1alpha1.Reason
	}{
		{name: "own pools come first, then the platform's by name", from: web, want: []string{"own", "a", "b"}},
		{name: "without own pools, the platform's", from: db, want: []string{"a", "b"}},
		{name: "the platform's own claims see each pool once", from: platform, want: []string{"a", "b"}},
		{name: "an address of the wrong family", from: web, claim: gen.Claim("x", gen.OfClass("c"), gen.Address("2001:db8::1")),
			reason: ipamv1alpha1.ReasonFamilyMismatch},
		{name: "too short", from: web, claim: gen.Claim("x", gen.OfClass("c"), gen.Length(23)),
			reason: ipamv1alpha1.ReasonPrefixLengthRejected},
		{name: "an address of no length", from: web, claim: gen.Claim("x", gen.OfClass("c"), gen.Address("0.0.0.0/0")),
			reason: ipamv1alpha1.ReasonPrefixLengthRejected},
		{name: "an address of no length, by the only length", from: web, claim: gen.Claim("x", gen.OfClass("c"), gen.Address("0.0.0.0/0")),
			change: func(w *world) {
				w.classes[0].Spec.AllowedPrefixLengths = &ipamv1alpha1.PrefixLengthRange{Min: 28, Max: 28}
			},
			reason: ipamv1alpha1.ReasonPrefixLengthRejected},
		{name: "what backs it is not ready", from: db,
			change: func(w *world) { w.pools[platform] = []*ipamv1alpha1.IPPool{gen.Pool("p", isPlatform, gen.Backs("c"))} },
			reason: ipamv1alpha1.ReasonNoOfferingPool},
		{name: "a platform pool narrowed to others is not there", from: db,
			change: func(w *world) { w.pools[platform][1].Spec.Consumers = []ipamv1alpha1.Consumer{"root:acme:web"} },
			want:   []string{"b"}},
		{name: "a shared or private pool of the platform backs nothing elsewhere", from: db,
			change: func(w *world) {
				w.pools[platform] = []*ipamv1alpha1.IPPool{
					ready(gen.Pool("s", isShared, gen.Consumers{"root:*"}, gen.Backs("c"))), ready(gen.Pool("p", isConsumer, gen.Backs("c"))),
				}
			},
			reason: ipamv1alpha1.ReasonNoOfferingPool},
		{name: "a pool whose bounds refuse is passed over", from: web, claim: gen.Claim("x", gen.OfClass("c"), gen.Length(26)),
			change: func(w *world) { w.pools[web][0].Spec.Allocation.MaxPrefixLength = 25 },
			want:   []string{"a", "b"}},
		{name: "every pool's bounds refuse", from: db, claim: gen.Claim("x", gen.OfClass("c"), gen.Length(26)),
			change: (*world).bounded, reason: ipamv1alpha1.ReasonPoolExhausted},
		{name: "the class's default is outside every pool's bounds", from: db,
			change: (*world).bounded, reason: ipamv1alpha1.ReasonPoolExhausted},
		{name: "every pool is smaller than the block", from: db, claim: gen.Claim("x", gen.OfClass("c"), gen.Length(24)),
			change: func(w *world) {
				for _, p := range w.pools[platform] {
					p.Status.AllocatedCIDR = "10.0.0.0/25"
				}
			},
			reason: ipamv1alpha1.ReasonPoolExhausted},
		{name: "an address outside the pool that could serve its length, inside one that could not", from: db,
			claim: gen.Claim("x", gen.OfClass("c"), gen.Address("10.1.0.0/28")),
			change: func(w *world) {
				w.pools[platform][0].Status.AllocatedCIDR = "10.1.0.0/16"
				w.pools[platform][0].Spec.Allocation.MaxPrefixLength = 26
			},
			reason: ipamv1alpha1.ReasonPoolExhausted},
		{name: "an address in no pool, whatever their bounds", from: db, claim: gen.Claim("x", gen.OfClass("c"), gen.Address("192.0.2.0/28")),
			change: func(w *world) { w.pools[platform][0].Spec.Allocation.MaxPrefixLength = 26 },
			reason: ipamv1alpha1.ReasonAddressOutOfRange},
		{name: "an exact address picks the pool that holds it", from: db, claim: gen.Claim("x", gen.OfClass("c"), gen.Address("10.1.0.16/28")),
			change: func(w *world) { w.pools[platform][0].Status.AllocatedCIDR = "10.1.0.0/16" },
			want:   []string{"b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := place()
			if tt.change != nil {
				tt.change(&w)
			}
			claim := cmp.Or(tt.claim, gen.Claim("x", gen.OfClass("c")))
			plan, err := query(tt.from, claim).Resolve(w)
			checkReason(t, err, tt.reason)
			if got := pools(plan); !slices.Equal(got, tt.want) {
				t.Errorf("candidates = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestResolve_TakesTheLengthFromClaimOrClass(t *testing.T) {
	for _, tt := range []struct {
		name  string
		class *ipamv1alpha1.IPClass
		claim *ipamv1alpha1.IPClaim
		want  int
	}{
		{"as asked", gen.Class("c", gen.DefaultLength(28)), gen.Claim("x", gen.OfClass("c"), gen.Length(25)), 25},
		{"the default", gen.Class("c", gen.DefaultLength(28)), gen.Claim("x", gen.OfClass("c")), 28},
		{"the only one", gen.Class("c", gen.Lengths{Min: 27, Max: 27}), gen.Claim("x", gen.OfClass("c")), 27},
		{"of the address", gen.Class("c", gen.DefaultLength(28)), gen.Claim("x", gen.OfClass("c"), gen.Address("10.0.0.0/30")), 30},
		{"of a host", gen.Class("c", gen.DefaultLength(28)), gen.Claim("x", gen.OfClass("c"), gen.Address("10.0.0.7")), 32},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := place()
			w.classes = []*ipamv1alpha1.IPClass{tt.class}
			plan := must.Get(query(db, tt.claim).Resolve(w))(t)
			if got := plan.Candidates[0].Length; got != tt.want {
				t.Errorf("length = /%d, want /%d", got, tt.want)
			}
		})
	}
}

func TestResolve_ChoosesTheDefaultClass(t *testing.T) {
	v4Class := gen.Class("four", gen.Default(), gen.DefaultLength(28))
	v6Class := gen.Class("six", gen.Default(), v6, gen.DefaultLength(64))
	for _, tt := range []struct {
		name    string
		classes []*ipamv1alpha1.IPClass
		claim   *ipamv1alpha1.IPClaim
		want    string
		reason  ipamv1alpha1.Reason
	}{
		{"none", nil, gen.Claim("x"), "", ipamv1alpha1.ReasonNoDefaultClass},
		{"the only one, whatever its family", []*ipamv1alpha1.IPClass{v6Class}, gen.Claim("x"), "six", ""},
		{"of two, the IPv4 one", []*ipamv1alpha1.IPClass{v6Class, v4Class}, gen.Claim("x"), "four", ""},
		{"of the family asked for", []*ipamv1alpha1.IPClass{v6Class, v4Class}, gen.Claim("x", v6), "six", ""},
		{"none of the family asked for", []*ipamv1alpha1.IPClass{v4Class}, gen.Claim("x", v6), "", ipamv1alpha1.ReasonNoDefaultClass},
		{"of two of a family, the oldest", []*ipamv1alpha1.IPClass{
			gen.Class("a", gen.Default(), gen.DefaultLength(28), gen.Created(day(2))),
			gen.Class("b", gen.Default(), gen.DefaultLength(28), gen.Created(day(1))),
		}, gen.Claim("x"), "b", ""},
		{"of two as old, the first by name", []*ipamv1alpha1.IPClass{
			gen.Class("b", gen.Default(), gen.DefaultLength(28), gen.Created(day(1))),
			gen.Class("a", gen.Default(), gen.DefaultLength(28), gen.Created(day(1))),
		}, gen.Claim("x"), "a", ""},
		{"one for others is none", []*ipamv1alpha1.IPClass{
			gen.Class("a", gen.Default(), gen.DefaultLength(28), isShared, gen.Consumers{"root:acme:web"}),
		}, gen.Claim("x"), "", ipamv1alpha1.ReasonNoDefaultClass},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world{classes: tt.classes, pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{}}
			for _, c := range tt.classes {
				cidr := ipamv1alpha1.CIDR("10.0.0.0/8")
				if c.Spec.IPFamily == ipamv1alpha1.IPv6 {
					cidr = "2001:db8::/32"
				}
				w.pools[platform] = append(w.pools[platform], ready(gen.Pool(c.Name, isPlatform, gen.CIDR(cidr), gen.Backs(c.Name))))
			}
			plan, err := query(db, tt.claim).Resolve(w)
			checkReason(t, err, tt.reason)
			if plan.ClassName != tt.want {
				t.Errorf("class = %q, want %q", plan.ClassName, tt.want)
			}
		})
	}
}

func TestResolve_OrdersPoolsByTheStrategy(t *testing.T) {
	w := place()
	w.rooms = map[string]resolve.Room{"a": {Utilization: 0.9, Fit: 20}, "b": {Utilization: 0.1, Fit: 28}}
	for strategy, want := range map[ipamv1alpha1.Strategy][]string{
		ipamv1alpha1.FirstFit:      {"a", "b"},
		ipamv1alpha1.BestFit:       {"b", "a"},
		ipamv1alpha1.LeastUtilized: {"b", "a"},
	} {
		w.classes[0].Spec.Strategy = strategy
		plan := must.Get(query(db, gen.Claim("x", gen.OfClass("c"))).Resolve(w))(t)
		if got := pools(plan); !slices.Equal(got, want) {
			t.Errorf("%s: candidates = %v, want %v", strategy, got, want)
		}
	}
}

func TestResolve_PrefersTheReclaimPolicyOfTheClaim(t *testing.T) {
	const retain = gen.Reclaim(ipamv1alpha1.ReclaimRetain)
	for _, tt := range []struct {
		name  string
		class []gen.ClassOption
		claim []gen.ClaimOption
		want  ipamv1alpha1.ReclaimPolicy
	}{
		{"the class's", []gen.ClassOption{retain}, nil, ipamv1alpha1.ReclaimRetain},
		{"the claim's word is stronger", []gen.ClassOption{retain}, []gen.ClaimOption{gen.Reclaim(ipamv1alpha1.ReclaimDelete)}, ipamv1alpha1.ReclaimDelete},
		{"nobody's is Delete", []gen.ClassOption{gen.Reclaim("")}, nil, ipamv1alpha1.ReclaimDelete},
	} {
		w := place()
		w.classes = []*ipamv1alpha1.IPClass{gen.Class("c", append(tt.class, gen.DefaultLength(28))...)}
		plan := must.Get(query(db, gen.Claim("x", append(tt.claim, gen.OfClass("c"))...)).Resolve(w))(t)
		if plan.Policy != tt.want {
			t.Errorf("%s: policy = %s, want %s", tt.name, plan.Policy, tt.want)
		}
	}
}

// checkReason fails the test unless err is a refusal for this reason. If the reason is empty, err must be nil.
func checkReason(t *testing.T, err error, want ipamv1alpha1.Reason) {
	t.Helper()
	var refusal *outcome.Refusal
	switch {
	case err == nil && want == "":
	case !errors.As(err, &refusal):
		t.Fatalf("err = %v, want a refusal for %q", err, want)
	case refusal.Reason != want:
		t.Fatalf("refused for %s (%s), want %q", refusal.Reason, refusal.Message, want)
	case refusal.Message == "":
		t.Errorf("refused for %s without a message", refusal.Reason)
	}
}

// The plan has the limit of the class, whatever its size. A claim that names its pool has no such limit, because its
// block is by no class.
func TestResolve_HasTheLimitOfAClass(t *testing.T) {
	const many = "340282366920938463463374607431768211456"
	w := place()
	w.classes[0].Spec.MaxPerConsumer = many
	plan, err := query(web, gen.Claim("x", gen.OfClass("c"))).Resolve(w)
	if err != nil || plan.Limit.String() != many {
		t.Errorf("limit = %v, %v", plan.Limit, err)
	}
	plan, err = query(web, gen.Claim("x", gen.FromPool("own"), gen.Length(28))).Resolve(w)
	if err != nil || plan.Limit != nil {
		t.Errorf("limit = %v, %v", plan.Limit, err)
	}
}
