package pool

import (
	"context"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
)

// given are the slices that the ledger has given.
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

// The label of a slice says nothing by itself: the ledger has to have given the workspace one, and no other pool.
func TestCarve_ASliceThatTheLedgerDoesNotKnow(t *testing.T) {
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
