package pool

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// given plays the slices of the ledger. There is at most one.
type given struct {
	views.Slices
	slice *ledger.Slice
}

func (g given) Get(_ context.Context, id ledger.PoolID, c ledger.ClusterName) (ledger.Slice, bool, error) {
	if g.slice == nil || g.slice.Pool != id || g.slice.Cluster != c {
		return ledger.Slice{}, false, nil
	}
	return *g.slice, true, nil
}

// A pool with the label of a slice asks as a slice only if the ledger has given its workspace that slice, and no other
// pool is the slice.
func TestAsks_NeedsASliceThatTheLedgerHasGiven(t *testing.T) {
	t.Parallel()
	const length = 28
	parent := gen.Pool("p")
	parent.Spec.Slices = &ipamv1alpha1.PoolSlices{PrefixLength: length}
	for name, test := range map[string]struct {
		slice *ledger.Slice
		want  bool
	}{
		"none was given":              {nil, false},
		"the workspace waits for one": {&ledger.Slice{Pool: "uid-of-p", Cluster: "w", State: ledger.SliceWaiting}, false},
		"it has given it up":          {&ledger.Slice{Pool: "uid-of-p", Cluster: "w", State: ledger.SliceDeclined, Child: "uid-of-child"}, false},
		"another pool is the slice":   {&ledger.Slice{Pool: "uid-of-p", Cluster: "w", State: ledger.SliceGiven, Child: "other"}, false},
		"another workspace has one":   {&ledger.Slice{Pool: "uid-of-p", Cluster: "v", State: ledger.SliceGiven}, false},
		"it is about to be made":      {&ledger.Slice{Pool: "uid-of-p", Cluster: "w", State: ledger.SliceGiven}, true},
		"it is the slice":             {&ledger.Slice{Pool: "uid-of-p", Cluster: "w", State: ledger.SliceGiven, Child: "uid-of-child"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := gen.Pool("p", gen.ChildOf("p", length))
			child.UID = "uid-of-child"
			child.Labels = map[string]string{ipamv1alpha1.LabelSlice: string(parent.UID)}
			p := &pass{Reconciler: &Reconciler{Options: Options{Ledger: views.Ledger{Slices: given{slice: test.slice}}}}, pool: child, id: "uid-of-child", owner: directory.Workspace{Cluster: "w"}}
			asks, err := p.asks(t.Context())
			if err != nil || resolve.IsSlice(asks, parent) != test.want {
				t.Errorf("asks = %v, %v; want it to ask as a slice: %t", asks, err, test.want)
			}
			if child.Labels[ipamv1alpha1.LabelSlice] == "" {
				t.Error("the label is taken from the pool itself")
			}
		})
	}
}

// A workspace that has as many pools as it may gets no more, until one of them goes. Not refused are a pool that the
// ledger has, a pool that shows its CIDR, a slice, and a pool of the platform.
func TestEnter_RefusesMorePoolsThanAWorkspaceMayHave(t *testing.T) {
	t.Parallel()
	first, servers := newEntered(t, ledger.Pool{})
	first.MaxPools = 1
	enter := func(uid types.UID, options ...gen.PoolOption) error {
		second := *first
		second.pool = gen.Pool("second", append(options, gen.CIDR("10.0.1.0/24"))...)
		second.pool.UID, second.id = uid, ledger.PoolID(uid)
		servers.answer.Object = second.pool
		return second.enter(t.Context())
	}
	refusal, refused := errors.AsType[*outcome.Refusal](enter("one"))
	if !refused || refusal.Reason != ipamv1alpha1.ReasonQuotaExceeded || servers.asked != 0 {
		t.Errorf("a second pool: %v, and a server was asked %d times; want %s, and none asked", refusal, servers.asked, ipamv1alpha1.ReasonQuotaExceeded)
	}
	if err := first.enter(t.Context()); err != nil {
		t.Errorf("the pool that is there: %v", err)
	}
	must.Do(t, first.Ledger.Pools.Retire(t.Context(), first.id))
	if err := enter("two"); err != nil {
		t.Errorf("a pool after the first has gone: %v", err)
	}
	if got := first.Ledger.Pools.Count("w"); got != 1 {
		t.Errorf("the workspace has %d pools, want 1", got)
	}
	slice := gen.Pool("slice", gen.ChildOf("p", 28))
	slice.Labels = map[string]string{ipamv1alpha1.LabelSlice: "uid-of-p"}
	shows := gen.Pool("shows")
	shows.Status.AllocatedCIDR = "10.0.2.0/24"
	gives := first.Ledger
	gives.Slices = given{slice: &ledger.Slice{Pool: "uid-of-p", Cluster: "w", State: ledger.SliceGiven}}
	for name, pool := range map[string]*ipamv1alpha1.IPPool{"a slice": slice, "a pool that the ledger has lost": shows} {
		exempt := *first
		exempt.Reconciler, exempt.pool = &Reconciler{Options: Options{Ledger: gives, Directory: first.Directory, MaxPools: 1}}, pool
		if err := exempt.counted(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	first.owner = first.Directory.Platform()
	if err := enter("three"); err != nil {
		t.Errorf("a pool of the platform: %v", err)
	}
}
