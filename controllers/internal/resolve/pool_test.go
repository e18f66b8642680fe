package resolve_test

import (
	"slices"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

// TestResolve_Messages has the plain refusals.
func TestResolve_ServesAClaimThatChoosesItsPool(t *testing.T) {
	w := world{pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{
		web: {
			ready(gen.Pool("own", gen.Lengths{Min: 20, Max: 28}, gen.Label("tier", "gold"))),
			ready(gen.Pool("only26", gen.Lengths{Min: 26, Max: 26})),
			ready(gen.Pool("six", gen.CIDR("2001:db8::/32"))),
			gen.Pool("waiting"),
		},
		db: {
			ready(gen.Pool("lent", isShared, gen.Consumers{"root:acme:*"}, gen.Label("tier", "gold"))),
			ready(gen.Pool("kept", isShared, gen.Consumers{"root:other:*"}, gen.Label("tier", "gold"))),
			ready(gen.Pool("private", gen.Label("tier", "gold"))),
		},
	}}
	for _, tt := range []struct {
		name   string
		claim  *ipamv1alpha1.IPClaim
		want   []string
		reason ipamv1alpha1.Reason
	}{
		{"of its workspace", gen.Claim("x", gen.FromPool("own"), gen.Length(24)), []string{"own"}, ""},
		{"of its workspace by its path", gen.Claim("x", gen.FromPoolIn("root:acme:web", "own"), gen.Length(24)), []string{"own"}, ""},
		{"the only length of the pool", gen.Claim("x", gen.FromPool("only26")), []string{"only26"}, ""},
		{"no length", gen.Claim("x", gen.FromPool("own")), nil, ipamv1alpha1.ReasonPrefixLengthRejected},
		{"out of bounds", gen.Claim("x", gen.FromPool("own"), gen.Length(29)), nil, ipamv1alpha1.ReasonPrefixLengthRejected},
		{"larger than the pool", gen.Claim("x", gen.FromPool("six"), gen.Length(31)), nil, ipamv1alpha1.ReasonPrefixLengthRejected},
		{"not ready", gen.Claim("x", gen.FromPool("waiting"), gen.Length(24)), nil, ipamv1alpha1.ReasonPoolNotFound},
		{"shared with it", gen.Claim("x", gen.FromPoolIn("root:acme:db", "lent"), gen.Length(24)), []string{"lent"}, ""},
		{"shared with others", gen.Claim("x", gen.FromPoolIn("root:acme:db", "kept"), gen.Length(24)), nil, ipamv1alpha1.ReasonPoolNotFound},
		{"by label", gen.Claim("x", gen.Selecting("tier", "gold"), gen.Length(24)), []string{"own"}, ""},
		{"by label, longer than a pool found hands out", gen.Claim("x", gen.Selecting("tier", "gold"), gen.Length(29)), nil, ipamv1alpha1.ReasonPoolExhausted},
		{"by label, without a length", gen.Claim("x", gen.Selecting("tier", "gold")), nil, ipamv1alpha1.ReasonPrefixLengthRejected},
		{"by label elsewhere, what is lent", gen.Claim("x", gen.SelectingIn("root:acme:db", "tier", "gold"), gen.Length(24)), []string{"lent"}, ""},
		{"a host", gen.Claim("x", gen.FromPool("six"), gen.Address("2001:db8::1")), []string{"six"}, ""},
		{"an address of the wrong family", gen.Claim("x", gen.FromPool("six"), gen.Address("10.0.0.1")), nil, ipamv1alpha1.ReasonFamilyMismatch},
		{"an address of no length", gen.Claim("x", gen.FromPool("own"), gen.Address("0.0.0.0/0")), nil, ipamv1alpha1.ReasonPrefixLengthRejected},
		{"an address elsewhere", gen.Claim("x", gen.FromPool("six"), gen.Address("2001:db9::1")), nil, ipamv1alpha1.ReasonAddressOutOfRange},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan, err := query(web, tt.claim).Resolve(w)
			checkReason(t, err, tt.reason)
			if got := pools(plan); !slices.Equal(got, tt.want) {
				t.Errorf("candidates = %v, want %v", got, tt.want)
			}
		})
	}
}

// The refusal is the same whether a pool or class does not exist, or may not be used.
func TestResolve_HidesWhatMayNotBeUsed(t *testing.T) {
	w := world{
		classes: []*ipamv1alpha1.IPClass{gen.Class("secret", isShared, gen.Consumers{"root:other"})},
		pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{
			db:       {ready(gen.Pool("secret"))},
			platform: {ready(gen.Pool("secret", isPlatform))},
		},
	}
	for _, claim := range []*ipamv1alpha1.IPClaim{
		gen.Claim("x", gen.OfClass("secret")),
		gen.Claim("x", gen.FromPoolIn("root:acme:db", "secret"), gen.Length(24)),
		gen.Claim("x", gen.FromPoolIn("root:ipam", "secret"), gen.Length(24)),
	} {
		_, forbidden := query(web, claim).Resolve(w)
		_, missing := query(web, claim).Resolve(world{})
		if forbidden == nil || missing == nil || forbidden.Error() != missing.Error() {
			t.Errorf("forbidden: %v\nmissing:   %v", forbidden, missing)
		}
	}
}

func TestParentQuery_ChecksTheParent(t *testing.T) {
	w := world{pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{
		web: {ready(gen.Pool("parent", gen.Lengths{Min: 20, Max: 24})), gen.Pool("waiting")},
	}}
	for _, tt := range []struct {
		name   string
		child  *ipamv1alpha1.IPPool
		reason ipamv1alpha1.Reason
	}{
		{"fits", gen.Pool("c", gen.ChildOf("parent", 24)), ""},
		{"the parent's bounds apply", gen.Pool("c", gen.ChildOf("parent", 25)), ipamv1alpha1.ReasonPrefixLengthRejected},
		{"no parent", gen.Pool("c", gen.ChildOf("nope", 24)), ipamv1alpha1.ReasonPoolNotFound},
		{"a parent that waits itself", gen.Pool("c", gen.ChildOf("waiting", 24)), ipamv1alpha1.ReasonPoolNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := resolve.ParentQuery{Child: tt.child, From: web}.Resolve(w)
			checkReason(t, err, tt.reason)
		})
	}
}

// A slice is carved from a pool of the platform that the slice's workspace may not name. A pool that only looks like a
// slice is not.
func TestParentQuery_CarvesSlices(t *testing.T) {
	parent := ready(gen.Pool("p", gen.Slices(24), gen.Visible(ipamv1alpha1.VisibilityPlatform), gen.Consumers{"root:acme:*"}))
	for _, tt := range []struct {
		name   string
		child  *ipamv1alpha1.IPPool
		from   directory.Workspace
		reason ipamv1alpha1.Reason
	}{
		{"a slice", slice("p", 24, string(parent.UID)), web, ""},
		{"not by the system", slice("p", 24, ""), web, ipamv1alpha1.ReasonPoolNotFound},
		{"of another pool", slice("p", 24, "other"), web, ipamv1alpha1.ReasonPoolNotFound},
		{"of another name", slice("q", 24, string(parent.UID)), web, ipamv1alpha1.ReasonPoolNotFound},
		{"of another length", slice("p", 23, string(parent.UID)), web, ipamv1alpha1.ReasonPoolNotFound},
		{"of who is not admitted", slice("p", 24, string(parent.UID)), directory.Workspace{Cluster: "x", Path: "root:other"}, ipamv1alpha1.ReasonPoolNotFound},
		{"of who is not known yet", slice("p", 24, string(parent.UID)), directory.Workspace{Cluster: "x"}, ipamv1alpha1.ReasonPoolNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world{pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {parent}}}
			_, err := resolve.ParentQuery{Child: tt.child, From: tt.from}.Resolve(w)
			checkReason(t, err, tt.reason)
		})
	}
}

// slice returns a child of the platform's pool p. If of is empty, the child has no label that marks it as a slice.
func slice(name string, length int32, of string) *ipamv1alpha1.IPPool {
	child := gen.Pool(name, gen.ChildOf("p", length))
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: platform.Path}
	if of != "" {
		gen.Label(ipamv1alpha1.LabelSlice, of)(&child.ObjectMeta)
	}
	return child
}

// The platform gets no slice. A pool of visibility Consumer, which is for its own workspace alone, has no slices.
func TestAdmitsToSlices_ExcludesThePlatformAndPrivatePools(t *testing.T) {
	for _, tt := range []struct {
		pool *ipamv1alpha1.IPPool
		who  directory.Workspace
		want bool
	}{
		{gen.Pool("p", gen.Visible(ipamv1alpha1.VisibilityPlatform)), web, true},
		{gen.Pool("p", gen.Visible(ipamv1alpha1.VisibilityPlatform)), platform, false},
		{gen.Pool("p", gen.Visible(ipamv1alpha1.VisibilityPlatform), gen.Consumers{"root:acme:db"}), web, false},
		{gen.Pool("p", gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:acme:*"}), web, true},
		{gen.Pool("p", gen.Visible(ipamv1alpha1.VisibilityShared)), web, false},
		{gen.Pool("p"), web, false},
	} {
		if got := resolve.AdmitsToSlices(tt.pool, platform, tt.who); got != tt.want {
			t.Errorf("visibility %s, consumers %v: %s is admitted: %v", tt.pool.Spec.Visibility, tt.pool.Spec.Consumers, tt.who.Path, got)
		}
	}
}
