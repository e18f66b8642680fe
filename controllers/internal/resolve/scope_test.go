package resolve_test

import (
	"errors"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

// made marks a pool as one that the system has made for a class.
func made(pool *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool {
	pool.Spec.ClassRef = &ipamv1alpha1.ClassRef{Name: "vpc"}
	return pool
}

// apart returns a world in which some pools do not serve every claim that names them.
func apart() world {
	return world{
		classes: []*ipamv1alpha1.IPClass{gen.Class("flat"), gen.Class("alike"), gen.Class("vrf", gen.UniqueWithin("network", "zone")), gen.Class("same", gen.UniqueWithin("zone", "network"))},
		pools: map[directory.Workspace][]*ipamv1alpha1.IPPool{
			web: {
				ready(gen.Pool("plain", gen.Backs("flat", "alike", "unheard"))), ready(gen.Pool("scoped", gen.Within("network", "vpc-1"))),
				ready(gen.Pool("spaces", gen.Backs("vrf", "same"))), ready(gen.Pool("torn", gen.Backs("flat", "vrf"))), made(ready(gen.Pool("made"))),
			},
			db: {ready(gen.Pool("scoped", isShared, gen.Consumers{"root:acme:web"}, gen.Within("network", "vpc-1"))), ready(gen.Pool("spaces", isShared, gen.Consumers{"root:acme:web"}, gen.Backs("vrf")))},
		},
	}
}

func TestResolve_RefusesPoolsThatServeByClassAlone(t *testing.T) {
	const elsewhere = "root:acme:db"
	for _, tt := range []struct {
		claim *ipamv1alpha1.IPClaim
		want  string
	}{
		{gen.Claim("x", gen.FromPool("plain"), gen.Length(28)), ""},
		{gen.Claim("x", gen.FromPool("scoped"), gen.Length(28), vpc1), ""},
		{gen.Claim("x", gen.FromPool("scoped"), gen.Length(28)), `pool "scoped" serves no other scope than network=vpc-1`},
		{gen.Claim("x", gen.FromPool("scoped"), gen.Length(28), gen.Within("network", "vpc-2")), `pool "scoped" serves no other scope than network=vpc-1`},
		{gen.Claim("x", gen.FromPool("spaces"), gen.Length(28), vpc1), `pool "spaces" has several address spaces`},
		{gen.Claim("x", gen.FromPool("made"), gen.Length(28)), `pool "made" was made for the claims of class "vpc"`},
		{gen.Claim("x", gen.FromPoolIn(elsewhere, "scoped"), gen.Length(28)), `there is no pool "scoped" in the workspace "root:acme:db" that this one may use`},
		{gen.Claim("x", gen.FromPoolIn(elsewhere, "spaces"), gen.Length(28)), `there is no pool "spaces" in the workspace "root:acme:db" that this one may use`},
		{gen.Claim("x", gen.FromPoolIn(elsewhere, "nope"), gen.Length(28)), `there is no pool "nope" in the workspace "root:acme:db" that this one may use`},
	} {
		_, err := query(web, tt.claim).Resolve(apart())
		refusal, _ := errors.AsType[*outcome.Refusal](err)
		switch {
		case tt.want == "" && err != nil, tt.want != "" && refusal == nil:
			t.Errorf("pool %s: %v, want %q", tt.claim.Spec.PoolRef.Name, err, tt.want)
		case refusal != nil && (refusal.Reason != ipamv1alpha1.ReasonPoolNotFound || !strings.HasPrefix(refusal.Message, tt.want)):
			t.Errorf("pool %s: %v, want PoolNotFound: %s", tt.claim.Spec.PoolRef.Name, refusal, tt.want)
		}
	}
}

// A child pool is carved only from a pool whose addresses are given out once. From a pool of one scope, only a child of
// that scope is carved.
func TestParent_RefusesPoolsThatServeByClassAlone(t *testing.T) {
	for parent, want := range map[string]string{
		"plain": "", "scoped": `pool "scoped" serves no other scope than network=vpc-1: give the child pool that scope, too`,
		"spaces": `pool "spaces" has several address spaces`, "made": `pool "made" was made for the claims of class "vpc"`,
	} {
		_, err := resolve.ParentQuery{Child: gen.Pool("child", gen.ChildOf(parent, 24)), From: web}.Resolve(apart())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a child of pool %s: %v, want %q", parent, err, want)
		}
	}
	child := gen.Pool("child", gen.ChildOf("scoped", 24), gen.Within("network", "vpc-1", "rack", "r1"))
	if _, err := (resolve.ParentQuery{Child: child, From: web}).Resolve(apart()); err != nil {
		t.Errorf("a child of the same network: %v", err)
	}
}

// Classes may share a pool only if they are unique within the same roles.
func TestResolve_RefusesClassesThatDiffer(t *testing.T) {
	w := apart()
	for pool, want := range map[string]string{
		"plain": "", "scoped": "", "spaces": "",
		"torn": `class "flat" is unique within the pool, and class "vrf" within network and zone; remove one from spec.classNames of the pool`,
	} {
		found, _ := w.Pool(web, pool)
		if got := resolve.ClassesDiffer(w, found, web, platform); got != want {
			t.Errorf("of pool %s is said %q, want %q", pool, got, want)
		}
	}
	for class, want := range map[string]string{"flat": "plain", "vrf": "spaces"} {
		plan, err := query(web, gen.Claim("x", gen.OfClass(class), gen.Length(28), gen.Within("network", "a", "zone", "b"))).Resolve(w)
		if err != nil || len(plan.Candidates) != 1 || plan.Candidates[0].Pool.Name != want {
			t.Errorf("class %s is served by %v, %v; want pool %s alone", class, pools(plan), err, want)
		}
	}
	w.pools[web] = w.pools[web][3:]
	_, err := query(web, gen.Claim("x", gen.OfClass("flat"), gen.Length(28))).Resolve(w)
	if err == nil || !strings.Contains(err.Error(), `NoOfferingPool: pool "torn" serves no class`) {
		t.Errorf("a class with a pool that differs alone: %v, want NoOfferingPool and the pool", err)
	}
}

// A class that a workspace may not use is unknown to the workspace. Its pools behave as if the class did not exist, and
// no refusal names the class.
func TestResolve_HidesClassesThatMayNotBeUsed(t *testing.T) {
	w := apart()
	hidden := w.class("vrf")
	hidden.Spec.Consumers = []ipamv1alpha1.Consumer{"root:acme:db"}
	torn, _ := w.Pool(web, "torn")
	if got := resolve.ClassesDiffer(w, torn, web, platform); got != "" {
		t.Errorf("a pool that names a hidden class says %q, want nothing", got)
	}
	if got := resolve.ClassesDiffer(w, torn, platform, platform); got == "" {
		t.Error("a pool of the platform that names it says nothing, want that the classes differ")
	}
	torn.Spec.Visibility = ipamv1alpha1.VisibilityPlatform
	w.pools = map[directory.Workspace][]*ipamv1alpha1.IPPool{platform: {torn}}
	_, err := query(web, gen.Claim("x", gen.OfClass("flat"), gen.Length(28))).Resolve(w)
	if err == nil || strings.Contains(err.Error(), "vrf") {
		t.Errorf("a claim by the other class: %v, want a refusal without the name of the hidden one", err)
	}
	w = networks()
	w.class("endpoint").CreationTimestamp.Time = day(2)
	sibling := gen.Class("secret", v6, gen.Below("subnet"), gen.UniqueWithin("network"), gen.Created(day(1)))
	sibling.Spec.Consumers = hidden.Spec.Consumers
	w.classes = append(w.classes, sibling)
	if _, _, broken := resolve.Chain(w, w.class("endpoint")); broken == nil || strings.Contains(broken.Message, "secret") {
		t.Errorf("a class beside a hidden one: %v, want a refusal without the name of that", broken)
	}
}
