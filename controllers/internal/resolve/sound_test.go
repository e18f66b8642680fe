package resolve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A fault of a chain is found from every class below it. The refusal names the class to correct.
func TestChain_NamesTheClassToCorrect(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*world)
		want   string
	}{
		"sound":                   {func(*world) {}, ""},
		"the default length only": {func(w *world) { w.class("endpoint").Spec.AllowedPrefixLengths = nil }, ""},
		"the only length": {func(w *world) {
			w.class("vpc").Spec = gen.Class("", v6, gen.PoolPer("project"), gen.Lengths{Min: 48, Max: 48}).Spec
		}, ""},
		"a younger sibling that differs": {func(w *world) {
			w.classes = append(w.classes, gen.Class("other", v6, gen.Below("subnet"), gen.UniqueWithin("network"), gen.Created(day(2))))
		}, ""},
		"no parent":                     {func(w *world) { w.classes = w.classes[1:] }, `class "subnet": its parent "vpc" does not exist`},
		"a cycle":                       {func(w *world) { w.class("vpc").Spec.ParentClassName = "endpoint" }, `class "vpc": its parent "endpoint" is below it: a chain of classes has no cycle`},
		"its own parent":                {func(w *world) { w.class("vpc").Spec.ParentClassName = "vpc" }, `class "vpc": its parent "vpc" is below it: a chain of classes has no cycle`},
		"another service":               {func(w *world) { w.class("vpc").Spec.Provisioner = "example.com/x" }, `class "vpc": it is provisioned by "example.com/x", which is not served here`},
		"two families":                  {func(w *world) { w.class("vpc").Spec.IPFamily = ipamv1alpha1.IPv4 }, `class "subnet": it is IPv6, and its parent "vpc" is IPv4`},
		"a parent without pools":        {func(w *world) { w.class("vpc").Spec.PoolPer = nil }, `class "vpc": it has no poolPer, so that class "subnet" has no pools`},
		"a pool as large as the parent": {func(w *world) { w.class("subnet").Spec.DefaultPrefixLength = 48 }, `class "subnet": it hands out a /48, which is not smaller than a pool of its parent "vpc", a /48`},
		"a range that begins too early": {func(w *world) {
			w.class("subnet").Spec.AllowedPrefixLengths = &ipamv1alpha1.PrefixLengthRange{Min: 44, Max: 64}
		}, `class "subnet": it hands out a /44`},
		"shared in what is not":                        {func(w *world) { w.class("subnet").Spec.PoolPer = []string{"allProjects", "network"} }, `class "subnet": all workspaces share its pools, and each has its own of its parent "vpc"`},
		"networks with the same addresses":             {func(w *world) { w.class("vpc").Spec.UniqueWithin = []string{"network"} }, ""},
		"locations with the same addresses":            {func(w *world) { w.class("subnet").Spec.UniqueWithin = []string{"location"} }, ""},
		"both of the only levels that may have spaces": {func(w *world) { overlapping(w, "vpc", "endpoint") }, ""},
		"a level between that may have no spaces": {func(w *world) { overlapping(w, "vpc", "subnet") },
			`class "subnet": it has uniqueWithin, as class "vpc" above it: of the classes below that, only the last may`},
		"an older sibling that differs": {func(w *world) {
			w.class("endpoint").CreationTimestamp.Time = day(2)
			w.classes = append(w.classes, gen.Class("other", v6, gen.Below("subnet"), gen.UniqueWithin("network"), gen.Created(day(1))))
		}, `class "endpoint": it has another uniqueWithin than the older class "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := networks()
			tt.change(&w)
			_, _, broken := resolve.Chain(w, w.class("endpoint"))
			switch {
			case broken == nil && tt.want != "":
				t.Errorf("nothing is wrong with the chain, want %q", tt.want)
			case broken != nil && (tt.want == "" || broken.Reason != ipamv1alpha1.ReasonChainBroken || !strings.HasPrefix(broken.Message, tt.want)):
				t.Errorf("the chain is refused with %v, want %q", broken, tt.want)
			}
		})
	}
}

// overlapping lets classes have the same addresses in each network.
func overlapping(w *world, classes ...string) {
	for _, name := range classes {
		w.class(name).Spec.UniqueWithin = []string{"network"}
	}
}

// If the root has uniqueWithin, only the last class of a chain may have it, too. Claims may use no class below such a
// last class.
func TestChain_RefusesClassesBelowTheLastWithUniqueWithin(t *testing.T) {
	w := networks()
	overlapping(&w, "vpc", "subnet")
	for name, sound := range map[string]bool{"vpc": true, "subnet": true, "endpoint": false} {
		if _, _, broken := resolve.Chain(w, w.class(name)); (broken == nil) != sound {
			t.Errorf("class %s is refused with %v, want that it may be used: %t", name, broken, sound)
		}
	}
}

// A chain may have eight classes, and no more.
func TestChain_HasEightClassesAtMost(t *testing.T) {
	levels := func(many int) world {
		w := world{}
		for i := range many {
			class := gen.Class(fmt.Sprint("c", i), v6, gen.DefaultLength(int32(48+4*i)), gen.PoolPer("project"))
			if i > 0 {
				class.Spec.ParentClassName = fmt.Sprint("c", i-1)
			}
			w.classes = append(w.classes, class)
		}
		return w
	}
	if _, _, broken := resolve.Chain(levels(8), levels(8).class("c7")); broken != nil {
		t.Errorf("a chain of eight is refused: %v", broken)
	}
	_, _, broken := resolve.Chain(levels(9), levels(9).class("c8"))
	if broken == nil || !strings.Contains(broken.Message, "more than 8 classes") {
		t.Errorf("a chain of nine is refused with %v, want that there are more than 8 classes", broken)
	}
}

// The roles of a chain are those of uniqueWithin and of each poolPer, without project and allProjects.
func TestChain_JoinsTheRolesOfItsClasses(t *testing.T) {
	w := networks()
	w.class("endpoint").Spec.UniqueWithin = []string{"zone", "network"}
	for name, want := range map[string][]string{"vpc": {"network"}, "subnet": {"location", "network"}, "endpoint": {"location", "network", "zone"}} {
		if root, roles, broken := resolve.Chain(w, w.class(name)); broken != nil || !slices.Equal(roles, want) || root.Name != "vpc" {
			t.Errorf("class %s below %s requires %v, and is refused with %v; want %v below vpc", name, root.Name, roles, broken, want)
		}
	}
	if _, roles, _ := resolve.Chain(w, gen.Class("flat")); len(roles) > 0 {
		t.Errorf("a class without roles requires %v", roles)
	}
}

// The claim's own word counts first, then the word of its class. Without either, a claim by a class of networks is
// refused, and any other claim gets what the controller was told.
func TestUnmet_PrefersTheWordOfTheClaim(t *testing.T) {
	const wait, refuse = ipamv1alpha1.UnmetWait, ipamv1alpha1.UnmetRefuse
	for _, tt := range []struct {
		claim, class       gen.Unmet
		of                 gen.ClassOption
		byDefault, refused ipamv1alpha1.UnmetPolicy
	}{
		{"", "", gen.Below("c"), refuse, refuse},
		{"", "", gen.PoolPer("project"), refuse, refuse},
		{"", "", gen.UniqueWithin("network"), refuse, refuse},
		{"", "", gen.UniqueWithin(), wait, refuse},
		{"", gen.Unmet(wait), gen.PoolPer("project"), wait, wait},
		{"", gen.Unmet(refuse), gen.UniqueWithin(), refuse, refuse},
		{gen.Unmet(wait), gen.Unmet(refuse), gen.PoolPer("project"), wait, wait},
		{gen.Unmet(refuse), gen.Unmet(wait), gen.UniqueWithin(), refuse, refuse},
	} {
		claim, class := gen.Claim("x", tt.claim), gen.Class("c", tt.of, tt.class)
		if got := resolve.Unmet(claim, class, ""); (got == refuse) != (tt.byDefault == refuse) {
			t.Errorf("claim %q of class %q, %+v: %q, want %s", tt.claim, tt.class, tt.of, got, tt.byDefault)
		}
		if got := resolve.Unmet(claim, class, refuse); got != tt.refused {
			t.Errorf("claim %q of class %q, where others refuse: %s, want %s", tt.claim, tt.class, got, tt.refused)
		}
	}
	if got := resolve.Unmet(gen.Claim("x"), nil, refuse); got != refuse {
		t.Errorf("a claim without a class: %s, want the word of the controller", got)
	}
	for _, class := range []*ipamv1alpha1.IPClass{nil, gen.Class("flat")} {
		if got := resolve.Unmet(gen.Claim("x", gen.ForRange()), class, wait); got != refuse {
			t.Errorf("a claim for a range of class %+v: %s, want %s", class, got, refuse)
		}
	}
}
