package recover

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// pool has the facts of a pool that its IPPool shows, and the findings of the pass on the pool.
type pool struct {
	id     ledger.PoolID
	owner  directory.Workspace
	name   string
	cidr   netip.Prefix // invalid: it never had one
	space  ledger.SpaceID
	parent *ipamv1alpha1.PoolRef // nil for a root
	slice  ledger.PoolID         // the pool that it is a slice of; empty: it is not a slice
	// derived has the class and scope of a derived pool. It is nil for an authored pool.
	derived *ledger.Derived
	// within has the scope roles within which the block of a derived pool is unique. Without roles the block is unique
	// in the parent.
	within   []string
	excluded []netip.Prefix // exclusions of a derived pool; those of an authored pool follow its spec
	made     time.Time
	leaves   bool // it is being deleted without our finalizer: the ledger may have retired it long ago
	had      *ipamv1alpha1.PoolLedger
	lost     bool  // the ledger lacks changes of it, and it is in the ledger again, not stuck
	late     bool  // to be restored after the records of other pools were read: see enterLate
	vouched  bool  // an IPAllocation shows a block of it
	stuck    error // why this pass cannot make it whole; nil if it can
	// lacking is the space of the parent in which the block of the pool is missing; empty if it is not.
	lacking ledger.SpaceID
	admits  func(directory.Workspace) bool // whether a workspace may claim from it
	object  *ipamv1alpha1.IPPool
	shows   string // the path that its workspace shows, contested or not
}

// beyond returns the count of changes from which the space of a resumed pool continues; see leap. It is zero if the
// IPPool names another ledger, and for a derived pool, which comes back with a higher count anyway.
func (p *pool) beyond(ledger string) int64 {
	if p.had == nil || p.had.ID != ledger || p.derived != nil {
		return 0
	}
	return p.had.Changes + leap
}

// rank orders the pools for restoring. Pools that are being deleted come last, because others may have got their
// addresses.
func (p *pool) rank() int {
	if p.leaves {
		return 1
	}
	return 0
}

// read returns the facts of an IPPool that the ledger needs. It returns nil for the IPPool of a derived pool if the
// system has not written the status, because anybody may have made that IPPool. It fails if the CIDR cannot be parsed,
// or if the status contradicts the spec.
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
		return nil, fmt.Errorf("pool %s of %s: its status shows %s, and not which pool that is carved from",
			p.name, owner.Cluster, text)
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

// derive notes the class, scope and workspace of a derived pool, as its IPPool shows them. The pool admits claims of
// its own workspace. A shared pool admits claims of all workspaces, and counts for the workspace whose claim made it.
func (p *pool) derive(object *ipamv1alpha1.IPPool) (err error) {
	p.space = ledger.SpaceID(p.id)
	p.derived = &ledger.Derived{Class: object.Spec.ClassRef.Name, Scope: resolve.LedgerScope(object.Spec.Scope)}
	p.admits = func(directory.Workspace) bool { return true }
	if own := p.owner; p.derived.ID() != p.id {
		p.derived.Workspace = own.Cluster.Tenant(object.Labels[ipamv1alpha1.LabelProvisionedFor])
		p.admits = func(who directory.Workspace) bool { return who.Cluster == own.Cluster }
	} else {
		p.derived.By = ledger.ClusterName(object.Labels[ipamv1alpha1.LabelProvisionedFor])
		if tenant := own.Cluster.Tenant(string(p.derived.By)); tenant != own.Cluster {
			p.derived.By = tenant
		}
	}
	p.within = object.Status.UniqueWithin
	p.excluded, err = resolve.Excluded(p.cidr, object.Spec)
	return err
}

// tenant returns the workspace that the pool belongs to.
func (p *pool) tenant() ledger.ClusterName {
	if p.derived == nil {
		return p.owner.Cluster
	}
	return cmp.Or(p.derived.Workspace, p.owner.Cluster)
}

// hasScope reports whether a claim's scope names the same objects as the scope of a derived pool, in each role of the
// pool.
func (p *pool) hasScope(scope ipamv1alpha1.Scope) bool {
	for role, ref := range p.derived.Scope {
		if ledger.ScopeRef(scope[role]) != ref {
			return false
		}
	}
	return true
}

// carvedIn returns the address space of the parent in which the pool is carved, or nil if it is carved in the parent
// itself.
func (p *pool) carvedIn() *resolve.Space {
	if len(p.within) == 0 {
		return nil
	}
	return &resolve.Space{Workspace: p.derived.Workspace, Scope: p.derived.Scope.Only(p.within)}
}

// invited reports whether the parent would admit a child pool today, whatever its free space and limits are. A derived
// pool is admitted by a parent of its own workspace or of the platform. More is not required: the class may have
// changed since, and a claim may have been answered with the whole pool as its range. If the IPPool of the child or
// parent cannot be read, the child is admitted.
func (p *pool) invited(parent *pool, platform directory.Workspace) bool {
	if p.derived != nil {
		return slices.Contains([]ledger.ClusterName{p.owner.Cluster, platform.Cluster}, parent.owner.Cluster)
	}
	if decode.Unreadable(p.object) != nil || decode.Unreadable(parent.object) != nil {
		return true
	}
	return resolve.ParentQuery{Child: p.object, From: p.owner}.Admitted(parent.object, parent.owner)
}
