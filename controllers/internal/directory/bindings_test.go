package directory_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// The first binding of these tests serves the workspace a, the second does not.
var (
	first  = testbed.Binding("a", "root:a")
	second = with(first, uid("second"), func(b *apisv1alpha2.APIBinding) { b.Status.Conditions = nil })
)

func uid(uid types.UID) func(*apisv1alpha2.APIBinding) {
	return func(b *apisv1alpha2.APIBinding) { b.UID = uid }
}

func bound(b *apisv1alpha2.APIBinding) { conditions.MarkTrue(b, conditionsv1alpha1.ReadyCondition) }

func deleted(b *apisv1alpha2.APIBinding) { b.DeletionTimestamp = new(metav1.Now()) }

func with(b *apisv1alpha2.APIBinding, changes ...func(*apisv1alpha2.APIBinding)) *apisv1alpha2.APIBinding {
	b = b.DeepCopy()
	for _, change := range changes {
		change(b)
	}
	return b
}

// The steps of a binding's life, as the endpoint shows them.
type dir = *directory.Directory

func seen(b *apisv1alpha2.APIBinding) func(dir)   { return func(d dir) { d.Seen(endpoint, b) } }
func gone(b *apisv1alpha2.APIBinding) func(dir)   { return func(d dir) { d.Gone(b) } }
func missed(b *apisv1alpha2.APIBinding) func(dir) { return func(d dir) { d.Missed(b) } }
func closed(d dir)                                { d.Closed(endpoint) }

func TestBindings_DecideWhichCallsTheObserverGets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		steps          []func(dir)
		words          string
		served, leaves bool
	}{
		"bound at once":        {steps: []func(dir){seen(first)}, words: "arrived", served: true},
		"bound after a moment": {steps: []func(dir){seen(second), seen(with(second, bound))}, words: "arrived", served: true},
		"shown again":          {steps: []func(dir){seen(first), seen(first)}, words: "arrived", served: true},
		"never bound":          {steps: []func(dir){seen(second)}},
		"never bound, deleted": {steps: []func(dir){seen(second), seen(with(second, deleted)), gone(second)}},
		"deleted": {
			steps: []func(dir){seen(first), seen(with(first, deleted)), seen(with(first, deleted))},
			words: "arrived leaving", served: true, leaves: true,
		},
		"gone":                                {steps: []func(dir){seen(first), seen(with(first, deleted)), gone(first)}, words: "arrived leaving departed"},
		"gone, and nobody saw the beginning":  {steps: []func(dir){seen(first), gone(first)}, words: "arrived"},
		"missing from a list":                 {steps: []func(dir){seen(first), missed(first)}, words: "arrived"},
		"missing from a list while it leaves": {steps: []func(dir){seen(first), seen(with(first, deleted)), missed(first)}, words: "arrived leaving"},
		"out of sight":                        {steps: []func(dir){seen(first), closed}, words: "arrived"},
		"in sight again":                      {steps: []func(dir){seen(first), closed, seen(first)}, words: "arrived arrived", served: true},
		"a second one":                        {steps: []func(dir){seen(first), seen(second)}, words: "arrived", served: true},
		"a second one before the first":       {steps: []func(dir){seen(second), seen(first)}, words: "arrived", served: true},
		"a second one being deleted": {
			steps: []func(dir){seen(first), seen(second), seen(with(second, deleted))}, words: "arrived", served: true,
		},
		"a second one gone": {
			steps: []func(dir){seen(first), seen(second), seen(with(second, deleted)), gone(second)}, words: "arrived", served: true,
		},
		"the first deleted beside a second one": {
			steps: []func(dir){seen(first), seen(second), seen(with(first, deleted))}, words: "arrived leaving", served: true, leaves: true,
		},
		"the first gone, the second waits": {
			steps: []func(dir){seen(first), seen(second), seen(with(first, deleted)), gone(first)}, words: "arrived leaving departed",
		},
		"the second takes over": {
			steps: []func(dir){seen(first), seen(second), seen(with(first, deleted)), gone(first), seen(with(second, bound))},
			words: "arrived leaving departed arrived", served: true,
		},
		"both gone, one after the other": {
			steps: []func(dir){seen(first), seen(second), seen(with(first, deleted)), gone(first), seen(with(second, deleted)), gone(second)},
			words: "arrived leaving departed departed",
		},
		"both gone, the second unseen": {
			steps: []func(dir){seen(first), seen(second), seen(with(first, deleted)), gone(first), missed(second)},
			words: "arrived leaving departed",
		},
		"the second took over and is missing": {
			steps: []func(dir){
				seen(first), seen(second), seen(with(first, deleted)), gone(first), seen(with(second, bound)), missed(second),
			},
			words: "arrived leaving departed arrived",
		},
		"made again": {
			steps: []func(dir){seen(first), seen(with(first, deleted)), gone(first), seen(with(first, uid("third")))},
			words: "arrived leaving departed arrived", served: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, told := newDirectory(), &observer{}
			d.Observe(told)
			for _, step := range tt.steps {
				step(d)
			}
			if got := strings.Join(told.words, " "); got != tt.words {
				t.Errorf("the observer was told %q, want %q", got, tt.words)
			}
			if got := d.Served(endpoint, "a"); got != tt.served {
				t.Errorf("Served = %t, want %t", got, tt.served)
			}
			if got := d.Leaves("a"); got != tt.leaves {
				t.Errorf("Leaves = %t, want %t", got, tt.leaves)
			}
			late, toldLate, want := newDirectory(), &observer{}, ""
			for _, step := range tt.steps {
				step(late)
			}
			late.Observe(toldLate)
			switch {
			case tt.leaves:
				want = "leaving"
			case tt.served:
				want = "arrived"
			case strings.HasSuffix(tt.words, "departed"):
				want = "departed"
			}
			if got := strings.Join(toldLate.words, " "); got != want {
				t.Errorf("an observer that comes later was told %q, want %q", got, want)
			}
		})
	}
}

// When the last binding of a workspace is deleted, the path of the workspace is free. While a workspace is only out of
// sight, no other workspace gets its path.
func TestBindings_FreeAPathWithTheLastBinding(t *testing.T) {
	t.Parallel()
	d := newDirectory()
	d.Seen(endpoint, first)
	d.Seen(endpoint, second)
	d.Gone(second)
	leads(t, d, "root:a", "a")
	if got := d.Closed(endpoint); !slices.Equal(got, []ledger.ClusterName{"a"}) {
		t.Errorf("Closed = %v, want a", got)
	}
	leads(t, d, "root:a", "a")
	d.Seen(endpoint, first)
	d.Gone(first)
	leads(t, d, "root:a", "")
}

// A shard that has just started may leave a bound workspace out of its list. No other workspace gets its path
// meanwhile.
func TestBindings_KeepThePathOfAWorkspaceThatAListLeftOut(t *testing.T) {
	t.Parallel()
	d := newDirectory()
	d.Seen(endpoint, testbed.Binding("victim", "root:a"))
	d.Seen("https://other", testbed.Binding("forger", "root:a"))
	d.Missed(testbed.Binding("victim", "root:a"))
	leads(t, d, "root:a", "")
	if got := d.Workspace("forger").Path; got != "" {
		t.Errorf("the forger is at %q, want no path", got)
	}
	if _, ok := d.OutOfSight()["victim"]; !ok || d.Bound("victim") {
		t.Errorf("OutOfSight = %v, Bound = %t; want the victim, which is not bound", d.OutOfSight(), d.Bound("victim"))
	}
}

// Each endpoint counts only for the bindings that it shows.
func TestBindings_CountOnlyAtTheEndpointThatShowsThem(t *testing.T) {
	t.Parallel()
	d := newDirectory()
	d.Seen(endpoint, first)
	if d.Served("https://other", "a") {
		t.Error("Served(other) = true of a workspace that it does not show")
	}
	if got := d.Closed("https://other"); len(got) != 0 || !d.Served(endpoint, "a") {
		t.Errorf("Closed(other) = %v, Served = %t; want none and true", got, d.Served(endpoint, "a"))
	}
}

// The endpoint of a workspace is one that shows a binding which serves the workspace and is not being deleted.
func TestEndpoint_ShowsABindingThatStays(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		seen []*apisv1alpha2.APIBinding
		want string
	}{
		"bound":                 {[]*apisv1alpha2.APIBinding{first}, endpoint},
		"bound, with a second":  {[]*apisv1alpha2.APIBinding{second, first}, endpoint},
		"not bound":             {nil, ""},
		"not bound yet":         {[]*apisv1alpha2.APIBinding{second}, ""},
		"about to be unbound":   {[]*apisv1alpha2.APIBinding{with(first, deleted)}, ""},
		"bound and not anymore": {[]*apisv1alpha2.APIBinding{first, with(first, deleted)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDirectory()
			for _, b := range tt.seen {
				d.Seen(endpoint, b)
			}
			if got, ok := d.Endpoint("a"); got != tt.want || ok != (tt.want != "") {
				t.Errorf("Endpoint = %q, %t; want %q", got, ok, tt.want)
			}
		})
	}
}

// A workspace shows its path only by a binding that serves it. A workspace that is never bound contests no path.
func TestBindings_HideThePathOfAnUnservedWorkspace(t *testing.T) {
	t.Parallel()
	d := newDirectory()
	d.Seen(endpoint, first)
	forger := with(second, func(b *apisv1alpha2.APIBinding) { b.Annotations["kcp.io/cluster"] = "forger" })
	d.Seen(endpoint, forger)
	leads(t, d, "root:a", "a")
}

// An endpoint closes before it shows that a workspace was deleted. Then another workspace is made at the same path.
// Both show the path until it is certain that the former one is gone.
func TestForget_FreesThePathOfAWorkspaceThatIsGone(t *testing.T) {
	t.Parallel()
	d, told := newDirectory(), &observer{}
	d.Observe(told)
	begun := time.Now()
	d.Seen(endpoint, testbed.Binding("former", "root:a"))
	d.Seen("https://other", testbed.Binding("b", "root:b"))
	d.Closed(endpoint)
	d.Seen(endpoint, testbed.Binding("later", "root:a"))
	if at := d.OutOfSight(); len(at) != 1 || at["former"].Before(begun) || at["former"].After(time.Now()) {
		t.Errorf("OutOfSight = %v, want former, and when it was shown", at)
	}
	leads(t, d, "root:a", "")
	for _, cluster := range []ledger.ClusterName{"former", "b", "p", "unknown"} {
		d.Forget(cluster)
	}
	for path, want := range map[string]ledger.ClusterName{"root:a": "later", "root:b": "b", "root:ipam": "p"} {
		leads(t, d, path, want)
	}
	if last := told.named[len(told.named)-1]; last.Cluster != "later" || len(d.OutOfSight()) != 0 {
		t.Errorf("told last of %v, out of sight are %v; want later, and none", last, d.OutOfSight())
	}
	d.Seen(endpoint, testbed.Binding("former", "root:a")) // it was not gone after all
	leads(t, d, "root:a", "")
}

// A workspace that was served and is not shown any more may still be bound, unless it was seen to be unbound. After a
// while that is not assumed any more.
func TestHidden_ReportsAWorkspaceThatMayStillBeBound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		steps []func(dir)
		want  bool
	}{
		"served":                         {nil, false},
		"left out by a list":             {[]func(dir){missed(first)}, true},
		"left out beside a second one":   {[]func(dir){seen(with(second, bound)), missed(first)}, false},
		"left out beside one that waits": {[]func(dir){seen(second), missed(first)}, true},
		"left out, and shown again":      {[]func(dir){missed(first), seen(first)}, false},
		"its endpoint is closed":         {[]func(dir){closed}, true},
		"another endpoint is closed":     {[]func(dir){func(d dir) { d.Closed("https://other") }}, false},
		"gone":                           {[]func(dir){gone(first)}, false},
		"gone, and the second left out":  {[]func(dir){seen(second), gone(first), missed(second)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDirectory()
			d.Seen(endpoint, first)
			for _, step := range tt.steps {
				step(d)
			}
			if got := d.Hidden("a", time.Minute); got != tt.want {
				t.Errorf("Hidden = %t, want %t", got, tt.want)
			}
			if d.Hidden("a", 0) {
				t.Error("it is hidden since less than no time")
			}
		})
	}
}
