package catalog

import (
	"cmp"
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// The claim's own policy counts, or else the policy of its class. If the class is gone, the policy is empty.
func TestReclaims_PrefersThePolicyOfTheClaim(t *testing.T) {
	t.Parallel()
	keeps, silent := gen.Class("keeps", gen.Reclaim(ipamv1alpha1.ReclaimRetain)), gen.Class("silent")
	p := testbed.Clusters{"": testbed.NewWorkspace(t, keeps, silent)}
	c := &Catalog{Clusters: p, Directory: directory.New(directory.Workspace{Cluster: "platform"})}
	for _, tt := range []struct {
		own   ipamv1alpha1.ReclaimPolicy
		class string
		want  ledger.ReclaimPolicy
	}{
		{"", "", ledger.Delete},
		{"", "silent", ledger.Delete},
		{"", "keeps", ledger.Retain},
		{"", "gone", ""},
		{ipamv1alpha1.ReclaimDelete, "keeps", ledger.Delete},
		{ipamv1alpha1.ReclaimRetain, "silent", ledger.Retain},
		{ipamv1alpha1.ReclaimRetain, "gone", ledger.Retain},
	} {
		if got, err := c.Reclaims(t.Context(), tt.own, tt.class); err != nil || got != tt.want {
			t.Errorf("Reclaims(%q, %q) = %q, %v; want %q", tt.own, tt.class, got, err, tt.want)
		}
	}
}

// platform is the only workspace that is engaged. The ledger knows some pools.
type platform struct {
	testbed.Clusters
	pools map[ledger.PoolID]ledger.Pool
}

func (p platform) Get(id ledger.PoolID) (ledger.Pool, bool) {
	known, ok := p.pools[id]
	return known, ok
}

// Of the cooldowns of pool and class, the longer one counts. If the workspace of the pool is bound, and is not served
// yet, the cooldown is not known, and Of fails.
func TestCooldowns_TakeTheLongerOfPoolAndClass(t *testing.T) {
	short, long, none := gen.Pool("short", gen.Cooldown("10s")), gen.Pool("long", gen.Cooldown("1h")), gen.Pool("none")
	minute := gen.Class("minute", gen.Cooldown("1m"))
	p := platform{
		Clusters: testbed.Clusters{"": testbed.NewWorkspace(t, short, long, none, minute)},
		pools:    map[ledger.PoolID]ledger.Pool{},
	}
	for _, pool := range []*ipamv1alpha1.IPPool{short, long, none} {
		id := ledger.PoolID(pool.UID)
		p.pools[id] = ledger.Pool{ID: id, Cluster: "platform", Name: pool.Name}
	}
	p.pools["former"] = ledger.Pool{ID: "former", Cluster: "platform", Name: "long"} // another pool has its name now
	p.pools["left"] = ledger.Pool{ID: "left", Cluster: "left", Name: "long"}
	space := ledger.AddressSpaceID("uid-of-long", "w", nil)
	p.pools[space] = ledger.Pool{ID: space, Cluster: "platform", Name: "long", Derived: &ledger.Derived{Of: "uid-of-long"}}
	cooldowns := &Cooldowns{}
	if _, err := cooldowns.Of(ledger.Block{}); err == nil {
		t.Error("Of = nil before there is a catalog, want an error")
	}
	known := directory.New(directory.Workspace{Cluster: "platform"})
	cooldowns.Serve(&Catalog{Clusters: p, Directory: known}, p)
	for _, tt := range []struct {
		pool  ledger.PoolID
		class string
		want  time.Duration
	}{
		{ledger.PoolID(short.UID), "", 10 * time.Second},
		{ledger.PoolID(short.UID), "minute", time.Minute},
		{ledger.PoolID(short.UID), "gone", 10 * time.Second},
		{ledger.PoolID(long.UID), "minute", time.Hour},
		{ledger.PoolID(none.UID), "", 0},
		{ledger.PoolID(none.UID), "minute", time.Minute},
		{space, "minute", time.Hour},
		{"former", "", 0},
		{"left", "", 0},
		{"unknown", "minute", time.Minute},
	} {
		if got, err := cooldowns.Of(ledger.Block{Pool: tt.pool, Class: tt.class}); err != nil || got != tt.want {
			t.Errorf("Of(%s, %q) = %s, %v, want %s", tt.pool, tt.class, got, err, tt.want)
		}
	}
	known.Seen("endpoint", testbed.Binding("left", "root:left"))
	if got, err := cooldowns.Of(ledger.Block{Pool: "left"}); err == nil {
		t.Errorf("Of a pool whose workspace is bound and not served = %s, want an error", got)
	}
	leases := Leases{Catalog: &Catalog{Clusters: p, Directory: known}, Pools: p}
	if got, err := leases.Of(t.Context(), ledger.Block{Pool: "left"}); err == nil {
		t.Errorf("the lease of a block of such a pool is %s, want an error: the pool may bound it", got)
	}
}

// A pool or class that cannot be read serves no claim, and looks like one that does not exist. Its readable fields
// still say how its blocks are given back.
func TestView_HidesUnreadableObjects(t *testing.T) {
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

// The pool of a block may exist while a shard is away, and for a minute after a list has left out the workspace of the
// pool. Meanwhile the cooldown and the lease of the block are not known, and their lookups fail.
func TestTerms_FailWhileThePoolIsOutOfSight(t *testing.T) {
	t.Parallel()
	binding := testbed.Binding("w", "root:w")
	leaving := binding.DeepCopy()
	leaving.DeletionTimestamp = new(metav1.Now())
	for name, tt := range map[string]struct {
		happens  func(*directory.Directory)
		after    time.Duration
		unlisted bool
		state    ledger.PoolState
		want     bool // its terms are known
	}{
		"left out by a list":              {happens: func(d *directory.Directory) { d.Missed(binding) }, after: live.Absence - time.Second},
		"left out for long":               {happens: func(d *directory.Directory) { d.Missed(binding) }, after: live.Absence, want: true},
		"left out, and drains":            {happens: func(d *directory.Directory) { d.Missed(binding) }, state: ledger.PoolDraining, want: true},
		"its endpoint is closed":          {happens: func(d *directory.Directory) { d.Closed("endpoint") }},
		"seen to leave":                   {happens: func(d *directory.Directory) { d.Seen("endpoint", leaving); d.Gone(leaving) }, want: true},
		"an endpoint has not listed":      {happens: func(d *directory.Directory) { d.Gone(binding) }, unlisted: true},
		"not listed, and the pool drains": {happens: func(d *directory.Directory) { d.Gone(binding) }, unlisted: true, state: ledger.PoolDraining, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := platform{
				Clusters: testbed.Clusters{"": testbed.NewWorkspace(t)},
				pools:    map[ledger.PoolID]ledger.Pool{"p": {ID: "p", Cluster: "w", Name: "p", State: cmp.Or(tt.state, ledger.PoolOpen)}},
			}
			synctest.Test(t, func(t *testing.T) {
				known := directory.New(directory.Workspace{Cluster: "platform"})
				known.Seen("endpoint", binding)
				tt.happens(known)
				<-time.After(tt.after)
				c := &Catalog{Clusters: p, Directory: known, Listed: func() bool { return !tt.unlisted }}
				cooldowns := &Cooldowns{}
				cooldowns.Serve(c, p)
				if got, err := cooldowns.Of(ledger.Block{Pool: "p"}); (err == nil) != tt.want {
					t.Errorf("Of = %s, %v; want an answer: %t", got, err, tt.want)
				}
				if got, err := (Leases{Catalog: c, Pools: p}).Of(t.Context(), ledger.Block{Pool: "p"}); (err == nil) != tt.want {
					t.Errorf("the lease is %s, %v; want an answer: %t", got, err, tt.want)
				}
			})
		})
	}
}
