package catalog

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// TestView_Unreadable: a pool or class that cannot be read is offered to nobody, and looks like one that does not exist. What
// is known of it says how its blocks are given back.
func TestView_Unreadable(t *testing.T) {
	pool, class := gen.Pool("p", gen.Cooldown("1h")), gen.Class("c", gen.Cooldown("2h"))
	class.Spec.ReclaimPolicy = ipamv1alpha1.ReclaimRetain
	for _, obj := range []client.Object{pool, class} {
		obj.SetAnnotations(map[string]string{decode.Mark: "spec.x"})
	}
	reader := testbed.NewClient(t).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			if _, ok := obj.(*ipamv1alpha1.IPPool); ok {
				return decode.Unreadable(pool)
			}
			return decode.Unreadable(class)
		},
	}).Build()
	id := ledger.PoolID(pool.UID)
	p := platform{Clusters: testbed.Clusters{"": &testbed.Workspace{Client: reader}}, pools: map[ledger.PoolID]ledger.Pool{id: {ID: id, Cluster: "platform", Name: "p"}}}
	known := directory.New(directory.Workspace{Cluster: "platform"})
	c := &Catalog{Clusters: p, Directory: known}
	view := c.View(t.Context())
	_, hasPool := view.Pool(known.Platform(), "p")
	if _, hasClass := view.Class("c"); hasPool || hasClass || view.Err() != nil {
		t.Errorf("the view has the pool: %t, the class: %t, %v; want neither, and no error", hasPool, hasClass, view.Err())
	}
	if got := pointers([]ipamv1alpha1.IPPool{*pool, *gen.Pool("q")}); len(got) != 1 || got[0].Name != "q" {
		t.Errorf("a list has %v, want q alone", got)
	}
	cooldowns := &Cooldowns{}
	cooldowns.Serve(c, p)
	for class, want := range map[string]time.Duration{"": time.Hour, "c": 2 * time.Hour} {
		if got, err := cooldowns.Of(ledger.Block{Pool: id, Class: class}); got != want || err != nil {
			t.Errorf("the block of class %q cools for %s, %v; want %s", class, got, err, want)
		}
	}
	if got, err := c.Reclaims(t.Context(), "", "c"); got != ledger.Retain || err != nil {
		t.Errorf("Reclaims = %s, %v; want Retain", got, err)
	}
}
