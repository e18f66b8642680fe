package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// pool is what the record says of a pool.
type pool struct {
	id     ledger.PoolID
	owner  directory.Workspace
	name   string
	cidr   netip.Prefix // invalid: it never had one
	space  ledger.SpaceID
	parent *ipamv1alpha1.PoolRef // nil for a root
	slice  ledger.PoolID         // the pool that it is a slice of; empty: it is not a slice
	// derived has class and scope of a pool that the system has made; nil: somebody has written it.
	derived  *ledger.Derived
	within   []string       // of a derived pool: the roles within whose objects its block is given once; none: it is given once in the parent
	excluded []netip.Prefix // of a derived pool: others get theirs by their spec
	made     time.Time
	leaves   bool // it is being deleted without our finalizer: the ledger may have retired it long ago
	had      *ipamv1alpha1.PoolLedger
	lost     bool  // the ledger misses something of it, and it was not stuck before its records were read
	late     bool  // it enters when the records of other pools are read: see enterLate
	vouched  bool  // a record has a block of it
	stuck    error // why it cannot be made whole, for as long as that is so; nil if it can
	// lacking is its parent's space, if the pool's block is missing there.
	lacking ledger.SpaceID
	admits  func(directory.Workspace) bool // whether a workspace may claim from it
	object  *ipamv1alpha1.IPPool
	shows   string // the path that its workspace shows, or that names it
}

// beyond is the count of changes that a pool's space goes on from: none in a ledger
// that is another one, or of a derived pool, which comes back with a higher count anyway.
func (p *pool) beyond(ledger string) int64 {
	if p.had == nil || p.had.ID != ledger || p.derived != nil {
		return 0
	}
	return p.had.Changes + leap
}

// rank orders pools as they enter: those that leave come last, as others may have got their addresses.
func (p *pool) rank() int {
	if p.leaves {
		return 1
	}
	return 0
}

// place names a pool as its owner's workspace has it.
type place struct {
	cluster ledger.ClusterName
	name    string
}

// pools are those of all workspaces, as the record shows them.
type pools struct {
	at       map[place]*pool
	ids      map[ledger.PoolID]bool
	clusters map[string][]ledger.ClusterName // of paths: those with pools that show one; several, if it names none of them
}

func (s pools) add(p *pool) {
	s.at[place{p.owner.Cluster, p.name}] = p
	s.ids[p.id] = true
	if p.shows != "" && !slices.Contains(s.clusters[p.shows], p.owner.Cluster) {
		s.clusters[p.shows] = append(s.clusters[p.shows], p.owner.Cluster)
	}
}

// find follows a reference from a workspace. It finds nothing where several workspaces show the path, and have a pool
// of the name: any of them may be meant.
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

// above returns the parent of a pool; nil: it has none, or that is not there.
func (s pools) above(p *pool) *pool {
	if p.parent == nil {
		return nil
	}
	return s.find(p.owner.Cluster, *p.parent)
}

// of finds the pool of a record. An error means that it has no place in any.
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

// world is one pass: all pools, while the pass adopts the lost ones.
type world struct {
	*Adopter
	pools
	lost []*pool // oldest first, and those that leave last

	mu       sync.Mutex // guards what follows, and what is noted as stuck
	later    []record   // of pools that enter late
	alone    []record   // of claims without a record
	unplaced []record   // IPAllocations of a pool in a workspace whose path nobody shows
	rivals   []rival    // records of blocks that others have
	left     int        // how many records are not adopted
}

// survey reads all pools, and finds those that the ledger misses something of.
func (a *Adopter) survey(ctx context.Context) (*world, error) {
	w := &world{Adopter: a, pools: pools{at: map[place]*pool{}, ids: map[ledger.PoolID]bool{}, clusters: map[string][]ledger.ClusterName{}}}
	var failed error
	err := a.Record.Each(ctx, &ipamv1alpha1.IPPoolList{}, func(cluster ledger.ClusterName, object client.Object) {
		if failed == nil {
			failed = w.look(ctx, cluster, object.(*ipamv1alpha1.IPPool))
		}
	})
	slices.SortFunc(w.lost, func(p, q *pool) int {
		return cmp.Or(cmp.Compare(p.rank(), q.rank()), p.made.Compare(q.made), cmp.Compare(p.id, q.id))
	})
	return w, errors.Join(failed, err)
}

// look adds a pool to the world, and to what is lost if it is.
func (w *world) look(ctx context.Context, cluster ledger.ClusterName, found *ipamv1alpha1.IPPool) error {
	p, err := read(w.known(cluster, found), w.Directory.Workspace(cluster), w.Directory.Platform().Cluster)
	if err != nil { // the system writes no such status, and the ledger has no such pool
		log.FromContext(ctx).Error(err, "an IPPool is left out: it may have been stored past all policies")
		if id, ok := catalog.ShownID(found, cluster, w.Directory.Platform().Cluster); ok {
			w.ids[id] = true // it is asked for as long as it is there
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

// errPathless: the path of a pool's workspace is not known yet, by which its records name it. The workspace may also be
// bound nowhere, as kcp lists some of the objects of workspaces that are gone.
var errPathless = errors.New("the path of its workspace is not known, by which its records name it")

// known returns an IPPool with the status that a frozen derived pool of the ledger had, if it shows none: the IPPool
// has gone since, as with a binding, and has come again. Else it returns the IPPool as it is.
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
	object.Status.AllocatedCIDR, object.Status.ScopeDigest, object.Status.UniqueWithin = p.CIDR.String(), ledger.Digest(id), catalog.UniqueWithin(a.Ledger.Pools(), p)
	return object
}

// stick notes the fault that keeps a pool from being made whole, and returns it if it
// keeps all of them: the ledger is away, or the pass is over.
func (w *world) stick(p *pool, fault error) error {
	for _, everybodys := range []error{ledger.ErrUnavailable, ledger.ErrClosed, context.Canceled, context.DeadlineExceeded} {
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

// spread makes all pools of a space stuck if one is, or if the block of a stuck child is
// missing there: what is missing could be allocated to others. One that was retired misses nothing.
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

// read takes from an IPPool the facts that a ledger has to have. It is nil if the IPPool says that the system has made
// it, and has no status: it may be anybody's.
func read(object *ipamv1alpha1.IPPool, owner directory.Workspace, platform ledger.ClusterName) (*pool, error) {
	id, ok := catalog.ShownID(object, owner.Cluster, platform)
	if !ok {
		return nil, nil
	}
	p := &pool{
		id: id, owner: owner, name: object.Name, object: object,
		space:  catalog.Space(object, owner.Cluster),
		parent: object.Parent(),
		slice:  ledger.PoolID(object.Labels[ipamv1alpha1.LabelSlice]),
		made:   object.CreationTimestamp.Time,
		leaves: retired(object),
		had:    object.Status.Ledger,
		admits: func(who directory.Workspace) bool { return resolve.Admits(object, owner, who) },
	}
	text := cmp.Or(object.Status.AllocatedCIDR, string(object.Spec.CIDR))
	if text == "" {
		return p, nil
	}
	var err error
	if object.Spec.ParentClassName != "" && p.parent == nil {
		return nil, fmt.Errorf("pool %s of %s: its status shows %s, and not which pool that is carved from", p.name, owner.Cluster, text)
	}
	if p.cidr, err = netip.ParsePrefix(text); err == nil && object.Spec.ClassRef != nil {
		err = p.derive(object)
	}
	if err == nil && object.Spec.Carved() && object.Spec.Length() != 0 && p.cidr.Bits() != object.Spec.Length() {
		err = fmt.Errorf("its status shows %s, and its spec asks for a /%d", p.cidr, object.Spec.Length())
	}
	if asked := string(object.Spec.Address); err == nil && asked != "" && asked != p.cidr.String() {
		err = fmt.Errorf("its status shows %s, and its spec asks for %s", p.cidr, asked)
	}
	if err != nil {
		return nil, fmt.Errorf("pool %s of %s: %w", p.name, owner.Cluster, err)
	}
	return p, nil
}
