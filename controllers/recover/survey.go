package recover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
)

// place is the workspace and the name of an IPPool.
type place struct {
	cluster ledger.ClusterName
	name    string
}

// pools has the IPPools of all workspaces, as a live list has shown them.
type pools struct {
	at       map[place]*pool
	ids      map[ledger.PoolID]bool
	clusters map[string][]ledger.ClusterName // the workspaces with pools, by the path that they show
}

func (s pools) add(p *pool) {
	s.at[place{p.owner.Cluster, p.name}] = p
	s.ids[p.id] = true
	if p.shows != "" && !slices.Contains(s.clusters[p.shows], p.owner.Cluster) {
		s.clusters[p.shows] = append(s.clusters[p.shows], p.owner.Cluster)
	}
}

// find returns the pool that a reference from a workspace names. It returns nil if no pool fits, or if several do,
// because several workspaces show the same path.
func (s pools) find(from ledger.ClusterName, ref ipamv1alpha1.PoolRef) *pool {
	if meant := s.meant(from, ref); len(meant) == 1 {
		return meant[0]
	}
	return nil
}

// meant lists the pools that a reference from a workspace may name.
func (s pools) meant(from ledger.ClusterName, ref ipamv1alpha1.PoolRef) (found []*pool) {
	in := []ledger.ClusterName{from}
	if ref.ProjectRef != nil {
		in = s.clusters[ref.ProjectRef.Name]
	}
	for _, cluster := range in {
		if p := s.at[place{cluster, ref.Name}]; p != nil {
			found = append(found, p)
		}
	}
	return found
}

// above returns the parent of a pool. It is nil for a root, and where no IPPool, or more than one, fits the reference.
func (s pools) above(p *pool) *pool {
	if p.parent == nil {
		return nil
	}
	return s.find(p.owner.Cluster, *p.parent)
}

// of returns the pool that a record names. It returns errUnplaced if there is no such pool, or if the pool does not
// overlap the block.
func (s pools) of(r record) (*pool, error) {
	if r.fault != nil {
		return nil, r.fault
	}
	p := s.find(r.request.Holder.Cluster, r.pool)
	if p == nil || !p.cidr.Overlaps(r.request.Exact) {
		return nil, errUnplaced
	}
	return p, nil
}

// world is the state of one pass.
type world struct {
	*Adopter
	pools
	books *books                         // the ledger, as it was read after enter
	lost  []*pool                        // oldest first; pools that are being deleted last
	bare  map[place]*ipamv1alpha1.IPPool // the IPPools whose status was not written yet: see learn

	mu       sync.Mutex // guards what follows, and pool.stuck
	later    []record   // records of late pools
	alone    []record   // records of claims without an IPAllocation
	unplaced []record   // IPAllocations of a pool in a workspace whose path nobody shows
	rivals   []record   // records of blocks that others have
	adopted  int        // how many records of lost pools were read
	left     int        // how many records are not adopted
}

// survey lists all IPPools, and finds the lost pools, whose changes the ledger lacks.
func (a *Adopter) survey(ctx context.Context) (*world, error) {
	w := &world{
		Adopter: a,
		pools:   pools{at: map[place]*pool{}, ids: map[ledger.PoolID]bool{}, clusters: map[string][]ledger.ClusterName{}},
		bare:    map[place]*ipamv1alpha1.IPPool{},
	}
	var failed error
	err := a.Record.Each(ctx, &ipamv1alpha1.IPPoolList{}, func(cluster ledger.ClusterName, object client.Object) {
		found := object.(*ipamv1alpha1.IPPool)
		switch {
		case bare(found):
			w.bare[place{cluster, found.Name}] = found
		case failed == nil:
			failed = w.look(ctx, cluster, found)
		}
	})
	if err = errors.Join(failed, err); err == nil {
		err = w.learn(ctx)
	}
	slices.SortFunc(w.lost, func(p, q *pool) int {
		return cmp.Or(cmp.Compare(p.rank(), q.rank()), p.made.Compare(q.made), cmp.Compare(p.id, q.id))
	})
	return w, err
}

// look adds an IPPool to the world, and to the lost pools if the ledger lacks changes of it.
func (w *world) look(ctx context.Context, cluster ledger.ClusterName, found *ipamv1alpha1.IPPool) error {
	p, err := read(w.known(cluster, found), w.Directory.Workspace(cluster), w.Directory.Platform().Cluster)
	if err != nil { // the system writes no such status, and the ledger has no such pool
		log.FromContext(ctx).Error(err, "an IPPool is left out: it may have been stored past all policies")
		if id, ok := catalog.ShownID(found, cluster, w.Directory.Platform().Cluster); ok {
			w.ids[id] = true // so that its loss is not forgotten while the IPPool exists
		}
		return nil
	}
	if p == nil {
		return nil
	}
	p.shows = w.Directory.Shows(cluster)
	w.add(p)
	misses, err := w.misses(ctx, p.id, found.Status)
	if err := w.stick(p, err); err != nil || !misses && p.stuck == nil {
		return err
	}
	if p.shows == "" {
		p.stuck = &nameless{cluster: cluster, error: errPathless}
	}
	w.lost = append(w.lost, p)
	return nil
}

// errPathless: the path of a pool's workspace is not known yet, and IPAllocations of other workspaces name the pool by
// that path. Or the workspace is bound nowhere: kcp lists some objects of deleted workspaces.
var errPathless = errors.New("the path of its workspace is not known, by which its records name it")

// known returns an IPPool as it is, with one exception. The IPPool of a frozen derived pool may show no CIDR, because
// it was deleted, for example with its APIBinding, and made again. Then known returns a copy with the status that the
// ledger's pool had.
func (a *Adopter) known(cluster ledger.ClusterName, object *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool {
	if object.Spec.ClassRef == nil || object.Status.AllocatedCIDR != "" {
		return object
	}
	id, ok := catalog.IDOf(a.Ledger.Pools(), object, cluster)
	p, there := a.Ledger.Pools().Get(id)
	if !ok || !there || !p.Frozen {
		return object
	}
	object = object.DeepCopy()
	object.Status.AllocatedCIDR, object.Status.ScopeDigest = p.CIDR.String(), ledger.Digest(id)
	object.Status.UniqueWithin = catalog.UniqueWithin(a.Ledger.Pools(), p)
	return object
}

// stick notes the fault that keeps one pool from being made whole. If the fault stops the whole pass, because the
// ledger is unavailable or the context has ended, stick returns the fault instead.
func (w *world) stick(p *pool, fault error) error {
	for _, everybodys := range []error{
		ledger.ErrUnavailable, ledger.ErrClosed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(fault, everybodys) {
			return fault
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.stuck == nil {
		p.stuck = fault
	}
	return nil
}

// spread makes every pool of a space stuck if one of them is stuck, or if the block of a stuck child is missing in the
// space. Otherwise the missing addresses could be allocated to others. A pool that was retired before the loss lacks
// nothing, and makes no other pool stuck.
func (w *world) spread() {
	spaces := map[ledger.SpaceID]*pool{}
	for _, p := range w.lost {
		if p.stuck != nil && !errors.Is(p.stuck, errRetired) {
			spaces[p.space] = p
			spaces[cmp.Or(p.lacking, p.space)] = p
		}
	}
	for _, p := range w.lost {
		if of := spaces[p.space]; of != nil && p.stuck == nil {
			p.stuck = fmt.Errorf("pool %s, which shares its addresses, is stuck", of.name)
		}
	}
}
