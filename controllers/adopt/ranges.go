package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// errUnclassed: the class is gone that says whom it admits.
var errUnclassed = errors.New("the class of the claim is gone, so that nobody knows whom it admits, and no record says that the claim has the block")

// derive notes class, scope and workspace of a pool that the system has made, as its IPPool says. Claims of the
// workspace that has it may be served from it, or of all workspaces if these share it. Then it counts for the one whose
// claim made it.
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

// tenant says whose the pool is.
func (p *pool) tenant() ledger.ClusterName {
	if p.derived == nil {
		return p.owner.Cluster
	}
	return cmp.Or(p.derived.Workspace, p.owner.Cluster)
}

// hasScope reports whether a claim's scope is that of a derived pool, in the roles of the pool.
func (p *pool) hasScope(scope ipamv1alpha1.Scope) bool {
	for role, ref := range p.derived.Scope {
		if ledger.ScopeRef(scope[role]) != ref {
			return false
		}
	}
	return true
}

// clear takes a derived pool out of the ledger that was retired since, and made again elsewhere. It hints at those that
// hold it, or its blocks: they are gone, or have something else by now.
func (a *Adopter) clear(ctx context.Context, former ledger.Pool) error {
	err := a.Ledger.Pools().Retire(ctx, former.ID)
	if !errors.Is(err, ledger.ErrPoolInUse) {
		return err
	}
	if holder := former.Derived.Holder; holder.Claim != "" {
		a.Suspect(holder)
	}
	return errors.Join(
		fmt.Errorf("the copy of the ledger has it at %s, with blocks that are released first: %w", former.CIDR, err),
		a.suspect(ctx, former.ID, ledger.Request{Exact: former.CIDR}),
	)
}

// reopen opens a derived pool that the copy of the ledger has as closed, or draining, for a release that has failed
// since, or after which the pool was made again: its IPPool shows more changes, and would go before the pool drains.
// While it is closed, no claim holds it, and it gets no address space.
func (a *Adopter) reopen(ctx context.Context, p *pool, copied ledger.Pool) (err error) {
	if copied.Derived == nil || copied.State != ledger.PoolDraining || p.leaves {
		return nil
	}
	if err = a.Ledger.Recovery().Open(ctx, copied.ID); err != nil {
		return fmt.Errorf("open pool %s again: %w", copied.Name, err)
	}
	return nil
}

// hold lets a claim hold the pool that it shows. Of two that show it, the older one has it, and verify finds the other.
// That the pool drains is a fault: it is opened, or retired and made again, before the next pass.
func (a *Adopter) hold(ctx context.Context, p *pool, r record) error {
	if p.derived == nil || p.cidr != r.request.Exact {
		return errUnranged
	}
	_, err := a.Ledger.Derived().Hold(ctx, p.id, r.request.Holder)
	if _, other := errors.AsType[*ledger.HeldError](err); other {
		return errors.Join(errUnranged, err)
	}
	if err != nil {
		return fmt.Errorf("give range %s to claim %s/%s: %w", r.text, r.request.Holder.Namespace, r.request.Holder.Name, err)
	}
	return nil
}

// within returns the record in the address space of its pool for a scope. Without a scope it is in the pool itself.
func (r record) within(scope ipamv1alpha1.Scope) record {
	if len(scope) > 0 {
		space, of := &resolve.Space{Workspace: r.request.Holder.Tenant(), Scope: resolve.LedgerScope(scope)}, r.request.Pool
		r.request.Pool, r.request.Begins = space.In(of), space.Begins(of)
	}
	return r
}

// carvedIn returns the address space of its parent that the pool is carved in; nil: it is carved in the parent itself.
func (p *pool) carvedIn() *resolve.Space {
	if len(p.within) == 0 {
		return nil
	}
	return &resolve.Space{Workspace: p.derived.Workspace, Scope: p.derived.Scope.Only(p.within)}
}

// unique returns the part of a claim's scope within which its block is unique: by its class, which has not changed that
// since.
func (a *Adopter) unique(ctx context.Context, r record) (ipamv1alpha1.Scope, error) {
	if len(r.scope) == 0 || r.request.Class == "" {
		return nil, nil
	}
	class, err := a.class(ctx, r.request.Class)
	if errors.Is(err, errUnclassed) {
		return r.scope.Only(a.spaced(r.request.Pool)), nil
	}
	if err != nil {
		return nil, err
	}
	return r.scope.Only(class.Spec.UniqueWithin), nil
}

// class reads a class from the cache.
func (a *Adopter) class(ctx context.Context, name string) (*ipamv1alpha1.IPClass, error) {
	platform, err := a.Clusters.GetCluster(ctx, a.Directory.Engaged(a.Directory.Platform().Cluster))
	if err != nil {
		return nil, err
	}
	class := &ipamv1alpha1.IPClass{}
	if err := platform.GetCache().Get(ctx, client.ObjectKey{Name: name}, class); apierrors.IsNotFound(err) {
		return nil, errUnclassed
	} else if err != nil {
		return nil, fmt.Errorf("read class %s: %w", name, err)
	}
	return class, nil
}

// spaced returns the roles of the address spaces of a pool, which all of them have; none if it has no address space.
// The class of a claim may be gone: a block that is put into the pool itself is given to nobody in an address space
// either, as a pool has one or the other.
func (a *Adopter) spaced(id ledger.PoolID) (roles []string) {
	if all := a.Ledger.Derived().Spaces(id); len(all) > 0 {
		roles = slices.Collect(maps.Keys(all[0].Derived.Scope))
	}
	return roles
}
