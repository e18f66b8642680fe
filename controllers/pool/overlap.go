package pool

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/feed"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// roots has the root pools of tenants. When a pool of another workspace changes, the root pools that share addresses
// with it are compared with it again. A pool enters before it is compared, so that no change is missed in between. The
// zero value is ready; safe for concurrent use.
type roots struct {
	mu    sync.Mutex
	pools map[ledger.ClusterName]map[mcreconcile.Request]netip.Prefix // by workspace; no inner map is empty
}

func (r *roots) enter(in ledger.ClusterName, pool mcreconcile.Request, cidr netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pools == nil {
		r.pools = map[ledger.ClusterName]map[mcreconcile.Request]netip.Prefix{}
	}
	if r.pools[in] == nil {
		r.pools[in] = map[mcreconcile.Request]netip.Prefix{}
	}
	r.pools[in][pool] = cidr
}

func (r *roots) leave(in ledger.ClusterName, pool mcreconcile.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.pools[in], pool); len(r.pools[in]) == 0 {
		delete(r.pools, in)
	}
}

// of lists the pools of a workspace.
func (r *roots) of(in ledger.ClusterName) []mcreconcile.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.pools[in]))
}

// sharing lists the pools of a workspace that share addresses with this CIDR. If in is empty, the pools are of all
// workspaces.
func (r *roots) sharing(in ledger.ClusterName, cidr netip.Prefix) (found []mcreconcile.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cluster, pools := range r.pools {
		for request, own := range pools {
			if (in == "" || in == cluster) && own.Overlaps(cidr) {
				found = append(found, request)
			}
		}
	}
	return found
}

// wakeRoots requeues the root pools of tenants that share addresses with a pool. A pool of the platform wakes those of
// all workspaces. A pool of a tenant that is carved from another workspace wakes those of the same tenant. A pool of
// the platform that was made for a scope wakes none: it backs no class, and any tenant makes and drops such pools.
func (r *Reconciler) wakeRoots(q inbox.Queue, in ledger.ClusterName, pool *ipamv1alpha1.IPPool) {
	cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil {
		return
	}
	if in == r.Directory.Platform().Cluster {
		if in = ""; pool.Spec.ClassRef != nil {
			return
		}
	} else if parent := pool.Parent(); parent == nil || parent.ProjectRef == nil {
		return
	}
	for _, request := range r.roots.sharing(in, cidr) {
		q.Add(request)
	}
}

// onClass requeues the pools of the platform that name a changed class, the root pools that share addresses with these
// pools, and the children that wait for one of them. While a class gives the addresses of a pool out in address spaces,
// the pool has no children.
func (r *Reconciler) onClass(multicluster.ClusterName, cluster.Cluster) feed.EventHandler {
	wake := func(ctx context.Context, class client.Object, q inbox.Queue) {
		platform := r.Directory.Platform()
		for _, child := range r.waiting.by(class.GetName()) {
			q.Add(child)
		}
		for _, pool := range r.Catalog.View(ctx).Backing(platform, class.GetName()) {
			r.wakeRoots(q, platform.Cluster, pool)
			for _, child := range r.children(platform, pool) {
				q.Add(child)
			}
			q.Add(inbox.Request(r.Directory.Engaged(platform.Cluster), client.ObjectKey{Name: pool.Name}))
		}
	}
	comesOrGoes := func(ctx context.Context, class client.Object, q inbox.Queue) {
		wake(ctx, class, q)
		r.wakeMade(class.(*ipamv1alpha1.IPClass), q)
	}
	return feed.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q inbox.Queue) { comesOrGoes(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q inbox.Queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
				wake(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q inbox.Queue) { comesOrGoes(ctx, e.Object, q) },
	}
}

// wakeMade requeues the pools that were made for a class, because their status says whether the class is there.
func (r *Reconciler) wakeMade(class *ipamv1alpha1.IPClass, q inbox.Queue) {
	if len(class.Spec.PoolPer) == 0 {
		return
	}
	for made := range r.Ledger.Derived.All() {
		if made.Derived.Class == class.Name {
			q.Add(inbox.Request(r.Directory.Engaged(made.Cluster), client.ObjectKey{Name: made.Name}))
		}
	}
}

// reportOverlap sets the condition Overlapping of a tenant's root pool, with an event when it comes.
func (p *pass) reportOverlap(ctx context.Context, cidr netip.Prefix) error {
	if p.owner.Cluster == p.Directory.Platform().Cluster || p.pool.Spec.Carved() {
		return nil
	}
	p.roots.enter(p.owner.Cluster, p.request, cidr)
	if p.owner.Path == "" && !p.Directory.Contests(p.owner.Cluster) {
		return nil // its path decides whether lists of consumers admit it
	}
	view := p.Catalog.View(ctx)
	said := resolve.Overlap{Pool: p.pool, CIDR: cidr, Owner: p.owner, Platform: p.Directory.Platform()}.Foreign(view)
	if err := view.Err(); err != nil {
		return err
	}
	p.reporter().declare(ipamv1alpha1.ConditionOverlapping, ipamv1alpha1.ReasonForeignSpace, said)
	return nil
}

// reportDiffering sets the condition ClassesDiffer of a pool whose classes cannot share it. Such a pool serves none of
// them. An event is emitted when the condition comes. The refusal is nil if the classes can share the pool.
func (p *pass) reportDiffering(ctx context.Context) (*outcome.Refusal, error) {
	view := p.Catalog.View(ctx)
	said := resolve.ClassesDiffer(view, p.pool, p.owner, p.Directory.Platform())
	if err := view.Err(); err != nil {
		return nil, err
	}
	p.reporter().declare(ipamv1alpha1.ConditionClassesDiffer, ipamv1alpha1.ReasonUniqueWithinDiffers, said)
	if said == "" {
		return nil, nil //nolint:nilnil // the classes agree
	}
	return &outcome.Refusal{Reason: ipamv1alpha1.ReasonUniqueWithinDiffers, Message: said}, nil
}
